import {
  type ClientReadableStream,
  type ClientUnaryCall,
  credentials,
  type Metadata,
  makeGenericClientConstructor,
  type requestCallback,
} from "@grpc/grpc-js";
import { grpcServiceDefinition } from "../../src/grpc/service-definition.ts";
import {
  type AckRequest,
  type AckResponse,
  type ExtendRequest,
  type ExtendResponse,
  type JobCall,
  type NackRequest,
  type NackResponse,
  RunnerService,
  type SubscribeRequest,
} from "../../src/gen/jobgate/v1/runner_pb.ts";

export type UnaryMethod<Request, Response> = (
  request: Request,
  metadata: Metadata,
  options: { deadline: number },
  callback: requestCallback<Response>,
) => ClientUnaryCall;

/** The generated client of RunnerService. */
export interface RunnerClient {
  subscribe(request: SubscribeRequest, metadata: Metadata): ClientReadableStream<JobCall>;
  ack: UnaryMethod<AckRequest, AckResponse>;
  nack: UnaryMethod<NackRequest, NackResponse>;
  extend: UnaryMethod<ExtendRequest, ExtendResponse>;
  close(): void;
}

/** Connects when first used, without TLS. */
export function makeRunnerClient(address: string): RunnerClient {
  const Client = makeGenericClientConstructor(grpcServiceDefinition(RunnerService), RunnerService.typeName);
  return new Client(address, credentials.createInsecure(), {
    "grpc.max_reconnect_backoff_ms": 500,
    // Each runner is a connection of its own, as each is a process in real life.
    "grpc.use_local_subchannel_pool": 1,
  }) as unknown as RunnerClient;
}
