import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
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

/** How to reach the runner port of a jobgate. */
export interface RunnerAddress {
  /** `host:port` or `unix:PATH`, in plaintext. */
  readonly address: string;
  /** Bearer token. */
  readonly token?: string;
}

/** One delivery of a JobCall, as Ack, Nack and Extend name it. */
export type Lease = Pick<JobCall, "callId" | "leaseToken">;

/** RunnerService over one connection, one lease at a time. Failed calls reject with grpc-js's `ServiceError`. */
export interface RunnerConnection {
  subscribe(request: MessageInitShape<typeof SubscribeRequestSchema>): ClientReadableStream<JobCall>;
  ack(lease: Lease, result: MessageInitShape<typeof JobResultSchema>): Promise<LeaseStatus>;
  nack(
    lease: Lease,
    outcome: MessageInitShape<typeof NackRequest_NackSchema>["outcome"] & object,
  ): Promise<LeaseStatus>;
  /** Renews by the lease that jobgate is configured with. */
  extend(lease: Lease): Promise<LeaseStatus>;
  close(): void;
}

const CALL_TIMEOUT_MS = 10_000;

type UnaryMethod<Request, Response> = (
  request: Request,
  metadata: Metadata,
  options: { deadline: number },
  callback: requestCallback<Response>,
) => ClientUnaryCall;

/** Connects when first used, and again whenever the connection is lost. */
export function connectRunner({ address, token }: RunnerAddress): RunnerConnection {
  const Client = makeGenericClientConstructor(grpcServiceDefinition(RunnerService), RunnerService.typeName);
  const client = new Client(address, credentials.createInsecure(), {
    // The default goes up to two minutes; the pauses between tries are the caller's.
    "grpc.max_reconnect_backoff_ms": 500,
    // Without pings of its own a client does not notice a network that went away.
    "grpc.keepalive_time_ms": 15_000,
    "grpc.keepalive_timeout_ms": 5_000,
    // The operator's max_body_bytes may be above grpc-js's 4 MiB.
    "grpc.max_receive_message_length": -1,
  });
  const methods = client as unknown as {
    subscribe(request: object, metadata: Metadata): ClientReadableStream<JobCall>;
    ack: UnaryMethod<object, AckResponse>;
    nack: UnaryMethod<object, NackResponse>;
    extend: UnaryMethod<object, ExtendResponse>;
  };
  const metadata = new Metadata();
  if (token !== undefined) metadata.set("authorization", `Bearer ${token}`);

  const statusOf = <Response extends { statuses: LeaseStatus[] }>(
    method: UnaryMethod<object, Response>,
    request: object,
  ): Promise<LeaseStatus> =>
    new Promise((resolve, reject) => {
      const deadline = Date.now() + CALL_TIMEOUT_MS;
      method.call(client, request, metadata, { deadline }, (error, response) =>
        error ? reject(error) : resolve(response?.statuses[0] ?? LeaseStatus.UNSPECIFIED),
      );
    });
  return {
    subscribe: (request) => methods.subscribe(create(SubscribeRequestSchema, request), metadata),
    ack: ({ callId, leaseToken }, result) =>
      statusOf(methods.ack, create(AckRequestSchema, { acks: [{ callId, leaseToken, result }] })),
    nack: ({ callId, leaseToken }, outcome) =>
      statusOf(methods.nack, create(NackRequestSchema, { nacks: [{ callId, leaseToken, outcome }] })),
    extend: ({ callId, leaseToken }) =>
      statusOf(methods.extend, create(ExtendRequestSchema, { leases: [{ callId, leaseToken }] })),
    close: () => client.close(),
  };
}
