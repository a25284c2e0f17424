import { create } from "@bufbuild/protobuf";
import { ServerCredentials, status } from "@grpc/grpc-js";
import { encodeDelivery, encodeJobCall } from "../../src/delivery/job-call-codec.ts";
import { AckResponseSchema, LeaseStatus, RunnerService } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { type CallHandler, DirectService, type StreamHandler, unary } from "../../src/grpc/direct-service.ts";
import { addDirectService, createGrpcServer, listen } from "../../src/grpc/server.ts";
import { HttpClient } from "../../src/parts/outbound/http-client.ts";
import { toCloudEvent } from "../../src/parts/push/cloud-event.ts";
import { GatewayMessages } from "../../src/parts/work-stream/gateway-messages.ts";
import { decodeAcks, encodeStatuses } from "../../src/parts/work-stream/work-codec.ts";
import type { ClaimedCall } from "../../src/store/contract/work-queue.ts";
import { PUSHED_PATH } from "../pushed-runner.ts";
import { serveBaseline } from "./serve.ts";

/** jobgate's HTTP, gRPC and push without a store: sends each accepted body at once, and answers each ack. */
let deliver: (call: ClaimedCall) => void = () => undefined;
let callId = 0;

const written = () => undefined;
const [, , url = ""] = process.argv;
const client = new HttpClient({ url, concurrency: 64, timeoutMs: 60_000 });
const push = (call: ClaimedCall) => {
  const { headers, body } = toCloudEvent(call, 60_000);
  client.send({ method: "POST", headers, body, bodyLimit: () => 65_536 }, written);
};
const { method } = RunnerService;
const failed = () => ({ code: status.UNKNOWN, details: "" });
const notServed: CallHandler = (_, call) => call.end({ code: status.UNIMPLEMENTED, details: "" });

const work: StreamHandler = (call) => {
  const messages = new GatewayMessages(call, 60_000);
  call.sendHeaders();
  deliver = (claimed) => messages.addJobCall(claimed, written);
  return {
    onMessage(bytes) {
      const message = decodeAcks(bytes);
      if (message === undefined) return;
      const acks = message.acks.map(() => LeaseStatus.DONE);
      messages.addStatuses(encodeStatuses(message.sequence, { acks, nacks: [], extends: [] }), written);
    },
    onEnd: () => call.end({ code: status.OK, details: "" }),
  };
};

const server = createGrpcServer({});
addDirectService(
  server,
  new DirectService({
    service: RunnerService,
    handlers: {
      subscribe: (_, call) => {
        call.sendHeaders();
        deliver = (claimed) => call.write(encodeDelivery(claimed, 60_000), written);
      },
      ack: unary(
        method.ack,
        async ({ acks }) => create(AckResponseSchema, { statuses: acks.map(() => LeaseStatus.DONE) }),
        failed,
      ),
      nack: notServed,
      extend: notServed,
    },
    streamHandlers: { work },
    maxRequestBytes: 16 * 1024 * 1024,
    refusal: () => undefined,
  }),
);
const port = await listen(server, "127.0.0.1:0", ServerCredentials.createInsecure());
await serveBaseline((body, path) => {
  const now = Date.now();
  const send = path === PUSHED_PATH ? push : deliver;
  send({
    callId: ++callId,
    leaseToken: "bench",
    encoded: encodeJobCall({ origin: "webhook", jobId: 1n, serviceId: 1n, body, metadata: {} }),
    attempt: 1,
    forgiven: 0,
    enqueuedAt: now,
    leaseExpiresAt: now + 60_000,
    suspect: false,
    deferred: false,
  });
  return callId;
});
console.log(`127.0.0.1:${port}`);
