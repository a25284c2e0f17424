import { create } from "@bufbuild/protobuf";
import {
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
} from "@grpc/grpc-js";
import { encodeDelivery, encodeJobCall } from "../../src/delivery/job-call-codec.ts";
import {
  type AckRequest,
  AckResponseSchema,
  LeaseStatus,
  RunnerService,
  type SubscribeRequest,
} from "../../src/gen/jobgate/v1/runner_pb.ts";
import { grpcServiceDefinition } from "../../src/grpc/service-definition.ts";
import { serveBaseline } from "./serve.ts";

/** jobgate's HTTP and gRPC without a store: writes each accepted body to the stream at once and answers each Ack. */
let stream: ServerWritableStream<SubscribeRequest, Buffer> | undefined;
let callId = 0;

const server = new Server();
server.addService(grpcServiceDefinition(RunnerService), {
  subscribe(call: ServerWritableStream<SubscribeRequest, Buffer>) {
    call.sendMetadata(call.metadata);
    stream = call;
  },
  ack(call: ServerUnaryCall<AckRequest, unknown>, answer: sendUnaryData<unknown>) {
    answer(null, create(AckResponseSchema, { statuses: call.request.acks.map(() => LeaseStatus.DONE) }));
  },
  nack() {},
  extend() {},
});
const port = await new Promise<number>((resolve, reject) => {
  server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
    error ? reject(error) : resolve(bound),
  );
});
await serveBaseline((body) => {
  const now = Date.now();
  const encoded = encodeJobCall({ origin: "webhook", jobId: 1n, serviceId: 1n, body, metadata: {} });
  stream?.write(
    encodeDelivery({
      callId: ++callId,
      leaseToken: "bench",
      encoded,
      attempt: 1,
      enqueuedAt: now,
      leaseExpiresAt: now + 60_000,
      suspect: false,
    }),
  );
  return callId;
});
console.log(`127.0.0.1:${port}`);
