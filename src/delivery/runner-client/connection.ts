import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  type Client,
  type ClientReadableStream,
  type ClientUnaryCall,
  credentials,
  Metadata,
  makeGenericClientConstructor,
  type requestCallback,
} from "@grpc/grpc-js";
import {
  AckRequestSchema,
  type AckResponse,
  ExtendRequestSchema,
  type ExtendResponse,
  type JobCall,
  type JobResultSchema,
  LeaseStatus,
  type NackRequest_NackSchema,
  NackRequestSchema,
  type NackResponse,
  RunnerService,
  SubscribeRequestSchema,
} from "../../gen/jobgate/v1/runner_pb.ts";
import { grpcServiceDefinition } from "../../grpc/service-definition.ts";

/** One delivery of a JobCall, as Ack, Nack and Extend name it. */
type Lease = Pick<JobCall, "callId" | "leaseToken">;

type UnaryMethod<Response> = (
  request: object,
  metadata: Metadata,
  options: { deadline: number },
  callback: requestCallback<Response>,
) => ClientUnaryCall;

type RunnerServiceClient = Client & {
  subscribe(request: object, metadata: Metadata): ClientReadableStream<JobCall>;
  ack: UnaryMethod<AckResponse>;
  nack: UnaryMethod<NackResponse>;
  extend: UnaryMethod<ExtendResponse>;
};

const CALL_TIMEOUT_MS = 10_000;

/**
 * RunnerService over one connection, one lease at a time. Connects when first used, and again whenever the connection
 * is lost. Failed calls reject with grpc-js's `ServiceError`.
 */
export class RunnerConnection {
  readonly #client: RunnerServiceClient;
  readonly #metadata = new Metadata();

  /**
   * @param address `host:port` or `unix:PATH`, in plaintext
   * @param token bearer token
   */
  constructor({ address, token }: { readonly address: string; readonly token?: string }) {
    const RunnerClient = makeGenericClientConstructor(
      grpcServiceDefinition(RunnerService),
      RunnerService.typeName,
    );
    this.#client = new RunnerClient(address, credentials.createInsecure(), {
      // The default goes up to two minutes; the caller paces its own retries.
      "grpc.max_reconnect_backoff_ms": 500,
      // Without pings of its own a client does not notice that the network is gone.
      "grpc.keepalive_time_ms": 15_000,
      "grpc.keepalive_timeout_ms": 5_000,
      // The operator's max_body_bytes may be above grpc-js's default of 4 MiB.
      "grpc.max_receive_message_length": -1,
    }) as unknown as RunnerServiceClient;
    if (token !== undefined) this.#metadata.set("authorization", `Bearer ${token}`);
  }

  subscribe(request: MessageInitShape<typeof SubscribeRequestSchema>): ClientReadableStream<JobCall> {
    return this.#client.subscribe(create(SubscribeRequestSchema, request), this.#metadata);
  }

  ack({ callId, leaseToken }: Lease, result: MessageInitShape<typeof JobResultSchema>): Promise<LeaseStatus> {
    return this.#call(this.#client.ack, create(AckRequestSchema, { acks: [{ callId, leaseToken, result }] }));
  }

  nack(
    { callId, leaseToken }: Lease,
    outcome: MessageInitShape<typeof NackRequest_NackSchema>["outcome"] & object,
  ): Promise<LeaseStatus> {
    const request = create(NackRequestSchema, { nacks: [{ callId, leaseToken, outcome }] });
    return this.#call(this.#client.nack, request);
  }

  /** Renews by the lease that jobgate is configured with. */
  extend({ callId, leaseToken }: Lease): Promise<LeaseStatus> {
    return this.#call(this.#client.extend, create(ExtendRequestSchema, { leases: [{ callId, leaseToken }] }));
  }

  close(): void {
    this.#client.close();
  }

  #call<Response extends { statuses: LeaseStatus[] }>(
    method: UnaryMethod<Response>,
    request: object,
  ): Promise<LeaseStatus> {
    return new Promise((resolve, reject) => {
      const deadline = Date.now() + CALL_TIMEOUT_MS;
      method.call(this.#client, request, this.#metadata, { deadline }, (error, response) =>
        error ? reject(error) : resolve(response?.statuses[0] ?? LeaseStatus.UNSPECIFIED),
      );
    });
  }
}
