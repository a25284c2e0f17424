import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  type ChannelCredentials,
  type ClientDuplexStream,
  type ClientReadableStream,
  type ClientUnaryCall,
  credentials as grpcCredentials,
  Metadata,
  makeGenericClientConstructor,
  type requestCallback,
} from "@grpc/grpc-js";
import {
  AckRequestSchema,
  type AckResponse,
  ExtendRequestSchema,
  type ExtendResponse,
  type GatewayMessage,
  type JobCall,
  NackRequestSchema,
  type NackResponse,
  type RunnerMessage,
  RunnerService,
  SubscribeRequestSchema,
} from "../../src/gen/jobgate/v1/runner_pb.ts";
import { grpcServiceDefinition } from "../../src/grpc/service-definition.ts";

/** Bounds every call: longer than any takes, shorter than a test's own time-out. */
const CALL_TIMEOUT_MS = 50_000;

/** Address and credentials of a runner. */
export interface RunnerConnection {
  /** `host:port`, or `unix:path`. */
  readonly address: string;
  readonly token?: string;
  /** Default: plaintext. */
  readonly credentials?: ChannelCredentials;
  /** Further options of grpc-js. */
  readonly channel?: object;
}

/** RunnerService as an author calls it with grpc-js. Calls that fail reject with its `ServiceError`. */
export interface RunnerClient {
  subscribe(request: MessageInitShape<typeof SubscribeRequestSchema>): ClientReadableStream<JobCall>;
  work(): ClientDuplexStream<RunnerMessage, GatewayMessage>;
  ack(request: MessageInitShape<typeof AckRequestSchema>): Promise<AckResponse>;
  nack(request: MessageInitShape<typeof NackRequestSchema>): Promise<NackResponse>;
  extend(request: MessageInitShape<typeof ExtendRequestSchema>): Promise<ExtendResponse>;
  close(): void;
}

type UnaryMethod<Response> = (
  request: object,
  metadata: Metadata,
  options: { deadline: number },
  callback: requestCallback<Response>,
) => ClientUnaryCall;

/** Connects when first used. */
export function makeRunnerClient(connection: RunnerConnection): RunnerClient {
  const { address, token, credentials = grpcCredentials.createInsecure(), channel = {} } = connection;
  const Client = makeGenericClientConstructor(grpcServiceDefinition(RunnerService), RunnerService.typeName);
  const client = new Client(address, credentials, {
    "grpc.max_reconnect_backoff_ms": 500,
    // Each runner has its own connection, like a separate process.
    "grpc.use_local_subchannel_pool": 1,
    ...channel,
  });
  const methods = client as unknown as {
    subscribe(request: object, metadata: Metadata): ClientReadableStream<JobCall>;
    work(metadata: Metadata): ClientDuplexStream<RunnerMessage, GatewayMessage>;
    ack: UnaryMethod<AckResponse>;
    nack: UnaryMethod<NackResponse>;
    extend: UnaryMethod<ExtendResponse>;
  };
  const metadata = new Metadata();
  if (token !== undefined) metadata.set("authorization", `Bearer ${token}`);

  const call = <Response>(method: UnaryMethod<Response>, request: object): Promise<Response> =>
    new Promise((resolve, reject) => {
      const deadline = Date.now() + CALL_TIMEOUT_MS;
      method.call(client, request, metadata, { deadline }, (error, response) =>
        error ? reject(error) : resolve(response as Response),
      );
    });
  return {
    subscribe: (request) => methods.subscribe(create(SubscribeRequestSchema, request), metadata),
    work: () => methods.work(metadata),
    ack: (request) => call(methods.ack, create(AckRequestSchema, request)),
    nack: (request) => call(methods.nack, create(NackRequestSchema, request)),
    extend: (request) => call(methods.extend, create(ExtendRequestSchema, request)),
    close: () => client.close(),
  };
}
