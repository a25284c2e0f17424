import { once } from "node:events";
import { connect, type IncomingHttpHeaders, type OutgoingHttpHeaders } from "node:http2";
import { deflateSync, gzipSync } from "node:zlib";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { ServerCredentials, status } from "@grpc/grpc-js";
import { expect, onTestFinished, test, vi } from "vitest";
import {
  AckRequestSchema,
  AckResponseSchema,
  LeaseStatus,
  RunnerService,
} from "../../src/gen/jobgate/v1/runner_pb.ts";
import { type CallHandler, DirectService, type StreamHandler, unary } from "../../src/grpc/direct-service.ts";
import type { GrpcCall } from "../../src/grpc/grpc-call.ts";
import { addDirectService, close, createGrpcServer, listen } from "../../src/grpc/server.ts";

const MAX_REQUEST_BYTES = 1_000;
const { DONE } = LeaseStatus;

/** Serves RunnerService: Ack answers DONE for each lease, Subscribe and Work are left to the test. */
async function startServer(
  subscribe: (call: GrpcCall) => void = () => undefined,
  work: StreamHandler = echo,
): Promise<string> {
  const notServed: CallHandler = (_, call) => call.end({ code: status.UNIMPLEMENTED, details: "" });
  const server = createGrpcServer({});
  addDirectService(
    server,
    new DirectService({
      service: RunnerService,
      handlers: {
        ack: unary(
          RunnerService.method.ack,
          async ({ acks }) => create(AckResponseSchema, { statuses: acks.map(() => DONE) }),
          () => ({ code: status.UNKNOWN, details: "" }),
        ),
        subscribe: (_, call) => subscribe(call),
        nack: notServed,
        extend: notServed,
      },
      streamHandlers: { work },
      maxRequestBytes: MAX_REQUEST_BYTES,
      refusal: () => undefined,
    }),
  );
  const port = await listen(server, "127.0.0.1:0", ServerCredentials.createInsecure());
  onTestFinished(() => close(server, 0));
  return `http://127.0.0.1:${port}`;
}

/** Answers each message of a stream with the same message. */
const echo: StreamHandler = (call) => {
  call.sendHeaders();
  return {
    onMessage: (message) => call.write([Buffer.from(message)], () => undefined),
    onEnd: (isWhole) => call.end({ code: isWhole ? status.OK : status.INVALID_ARGUMENT, details: "" }),
  };
};

interface Answer {
  readonly httpStatus: unknown;
  readonly grpcStatus: number;
  readonly body: Buffer;
}

/** Sends a call's bytes as they are, and ends it after them unless `isOpen`. */
async function send(
  url: string,
  parts: readonly Uint8Array[],
  { headers = {}, isOpen = false }: { headers?: OutgoingHttpHeaders; isOpen?: boolean } = {},
): Promise<Answer> {
  const session = connect(url);
  onTestFinished(() => session.destroy());
  const stream = session.request({
    ":method": "POST",
    ":path": "/jobgate.v1.RunnerService/Ack",
    "content-type": "application/grpc",
    te: "trailers",
    ...headers,
  });
  let trailers: IncomingHttpHeaders = {};
  stream.on("trailers", (received) => {
    trailers = received;
  });
  const responded = once(stream, "response");
  for (const part of parts) stream.write(part);
  if (!isOpen) stream.end();
  const [head] = (await responded) as [IncomingHttpHeaders];
  const body: Buffer[] = [];
  for await (const chunk of stream) body.push(chunk as Buffer);
  return {
    httpStatus: head[":status"],
    grpcStatus: Number(head["grpc-status"] ?? trailers["grpc-status"]),
    body: Buffer.concat(body),
  };
}

/** Puts gRPC's header before a message. */
function framed(message: Uint8Array, isCompressed = false): Buffer {
  const header = Buffer.alloc(5);
  header.writeUInt8(isCompressed ? 1 : 0);
  header.writeUInt32BE(message.byteLength, 1);
  return Buffer.concat([header, message]);
}

const request = toBinary(
  AckRequestSchema,
  create(AckRequestSchema, { acks: [{ callId: 1n }, { callId: 2n }] }),
);
const statusesIn = ({ body }: Answer) => fromBinary(AckResponseSchema, body.subarray(5)).statuses;

test("A request is answered, however it is cut into frames", async () => {
  const url = await startServer();
  for (const parts of [[framed(request)], [...framed(request)].map((byte) => Uint8Array.of(byte))]) {
    const answer = await send(url, parts);
    expect(answer).toMatchObject({ httpStatus: 200, grpcStatus: status.OK });
    expect(statusesIn(answer)).toEqual([DONE, DONE]);
  }
});

test("An empty message is a request", async () => {
  const answer = await send(await startServer(), [framed(new Uint8Array())]);
  expect(answer.grpcStatus).toBe(status.OK);
  expect(statusesIn(answer)).toEqual([]);
});

test.each([
  ["gzip", gzipSync(request)],
  ["deflate", deflateSync(request)],
])("A request compressed with %s is read", async (encoding, compressed) => {
  const headers = { "grpc-encoding": encoding };
  const answer = await send(await startServer(), [framed(compressed, true)], { headers });
  expect(statusesIn(answer)).toEqual([DONE, DONE]);
});

test.each([
  ["no message", [], {}, status.UNIMPLEMENTED],
  ["half a header", [Buffer.alloc(3)], {}, status.UNIMPLEMENTED],
  ["half a message", [framed(request).subarray(0, 8)], {}, status.UNIMPLEMENTED],
  ["two messages", [framed(request), framed(request)], {}, status.UNIMPLEMENTED],
  ["another message", [framed(Buffer.from([0xff, 0xff]))], {}, status.INTERNAL],
  ["an unknown encoding", [framed(request, true)], { "grpc-encoding": "br" }, status.UNIMPLEMENTED],
  ["compression that it does not name", [framed(request, true)], {}, status.UNIMPLEMENTED],
  ["a message that is not compressed", [framed(request, true)], { "grpc-encoding": "gzip" }, status.INTERNAL],
  [
    "a message that grows",
    [framed(gzipSync(Buffer.alloc(MAX_REQUEST_BYTES + 1)), true)],
    { "grpc-encoding": "gzip" },
    status.RESOURCE_EXHAUSTED,
  ],
  ["a large message", [framed(Buffer.alloc(MAX_REQUEST_BYTES + 1))], {}, status.RESOURCE_EXHAUSTED],
  ["a deadline that is not a time", [framed(request)], { "grpc-timeout": "soon" }, status.INTERNAL],
  ["an unknown method", [framed(request)], { ":path": "/jobgate.v1.RunnerService/No" }, status.UNIMPLEMENTED],
])("A call with %s is refused", async (_, parts, headers, code) => {
  expect((await send(await startServer(), parts, { headers })).grpcStatus).toBe(code);
});

test("A message that announces too many bytes is refused before they arrive", async () => {
  const answer = await send(await startServer(), [Buffer.from([0, 0xff, 0xff, 0xff, 0xff])], {
    isOpen: true,
  });
  expect(answer.grpcStatus).toBe(status.RESOURCE_EXHAUSTED);
});

test("A second message is refused before the call's end", async () => {
  const answer = await send(await startServer(), [framed(request), framed(request)], { isOpen: true });
  expect(answer.grpcStatus).toBe(status.UNIMPLEMENTED);
});

test("Another content type is 415", async () => {
  const headers = { "content-type": "application/json" };
  expect((await send(await startServer(), [], { headers })).httpStatus).toBe(415);
});

test("A call that is not answered by its deadline ends with DEADLINE_EXCEEDED", async () => {
  let begun = 0;
  let over = 0;
  const url = await startServer((call) => {
    begun++;
    call.onOver(() => over++);
  });
  const headers = { ":path": "/jobgate.v1.RunnerService/Subscribe", "grpc-timeout": "20m" };
  expect((await send(url, [framed(new Uint8Array())], { headers })).grpcStatus).toBe(
    status.DEADLINE_EXCEEDED,
  );
  // A busy machine may reach the deadline before the request arrives.
  expect(over).toBe(begun);
});

test("Messages in small and large pieces arrive in order before the status, and are reported as written", async () => {
  const messages = [
    [Uint8Array.of(1)],
    [Buffer.alloc(5_000, 2), Uint8Array.of(3)],
    [],
    [Uint8Array.of(4), Buffer.alloc(20_000, 5), Buffer.alloc(5_000, 6)],
    [Uint8Array.of(7), Uint8Array.of(8)],
  ];
  const written: number[] = [];
  const url = await startServer((call) => {
    call.sendHeaders();
    for (const [index, pieces] of messages.entries()) call.write(pieces, () => written.push(index));
    call.end({ code: status.UNAVAILABLE, details: "shutting down" });
    // The call is over.
    call.write([Uint8Array.of(4)], () => written.push(-1));
  });
  const headers = { ":path": "/jobgate.v1.RunnerService/Subscribe" };
  const answer = await send(url, [framed(new Uint8Array())], { headers });
  expect(answer.grpcStatus).toBe(status.UNAVAILABLE);
  expect(answer.body).toEqual(Buffer.concat(messages.map((pieces) => framed(Buffer.concat(pieces)))));
  await expect.poll(() => written).toEqual([...messages.keys()]);
});

test("A call blocks while its reader has stopped, drains when it reads on, and is over when it hangs up", async () => {
  const message = Buffer.alloc(10_000, 7);
  let sent = 0;
  let drains = 0;
  let over = 0;
  const url = await startServer((call) => {
    call.sendHeaders();
    const fill = () => {
      while (call.write([message], () => undefined)) sent++;
      sent++;
    };
    call.onDrain(() => {
      if (++drains < 100) fill();
    });
    call.onOver(() => over++);
    fill();
  });
  const session = connect(url);
  onTestFinished(() => session.destroy());
  const headers = { ":path": "/jobgate.v1.RunnerService/Subscribe", "content-type": "application/grpc" };
  const stream = session.request({ ":method": "POST", ...headers });
  stream.on("error", () => undefined);
  stream.end(framed(new Uint8Array()));
  await once(stream, "response");
  // The connection's window is 64 KiB, and so much may wait here.
  expect(sent).toBeLessThan(50);
  let received = 0;
  stream.on("data", (chunk: Buffer) => {
    received += chunk.byteLength;
  });
  await expect.poll(() => drains).toBe(100);
  await expect.poll(() => received).toBe(sent * framed(message).byteLength);
  expect(over).toBe(0);
  stream.close();
  await expect.poll(() => over).toBe(1);
});

const STREAM = { headers: { ":path": "/jobgate.v1.RunnerService/Work" } };
const texts = ["first", "", "a".repeat(MAX_REQUEST_BYTES), "b", "last"];
const streamed = Buffer.concat(texts.map((text) => framed(Buffer.from(text))));

test("Messages of a stream are read in order, however they are cut into frames", async () => {
  const url = await startServer();
  const cuts = Array.from({ length: 40 }, (_, at) => [streamed.subarray(0, at), streamed.subarray(at)]);
  for (const parts of [[streamed], [...streamed].map((byte) => Uint8Array.of(byte)), ...cuts]) {
    const answer = await send(url, parts, STREAM);
    expect(answer.grpcStatus).toBe(status.OK);
    expect(answer.body.equals(streamed)).toBe(true);
  }
});

test("A compressed message of a stream comes before the next, which is not compressed", async () => {
  const parts = ["one", "two", "three"].flatMap((text) => [
    framed(gzipSync(`${text} in gzip`), true),
    framed(Buffer.from(text)),
  ]);
  const headers = { ...STREAM.headers, "grpc-encoding": "gzip" };
  const answer = await send(await startServer(), [Buffer.concat(parts)], { headers });
  const expected = ["one", "two", "three"].flatMap((text) => [`${text} in gzip`, text]);
  expect(answer.grpcStatus).toBe(status.OK);
  expect(answer.body.equals(Buffer.concat(expected.map((text) => framed(Buffer.from(text)))))).toBe(true);
});

test.each([
  ["stops within a header", [streamed, Buffer.alloc(4)], {}, status.INVALID_ARGUMENT],
  ["stops within a message", [streamed, framed(request).subarray(0, 8)], {}, status.INVALID_ARGUMENT],
  ["has a large message", [streamed, framed(Buffer.alloc(1_001))], {}, status.RESOURCE_EXHAUSTED],
  [
    "has a message that grows",
    [streamed, framed(gzipSync(Buffer.alloc(1_001)), true)],
    { "grpc-encoding": "gzip" },
    status.RESOURCE_EXHAUSTED,
  ],
  ["has an unknown encoding", [framed(request, true)], { "grpc-encoding": "br" }, status.UNIMPLEMENTED],
])("A stream that %s is refused", async (_, parts, headers, code) => {
  const answer = await send(await startServer(), parts, { headers: { ...STREAM.headers, ...headers } });
  expect(answer.grpcStatus).toBe(code);
});

test("A stream whose reading pauses takes what fits into its window, and then all", async () => {
  const message = framed(Buffer.alloc(MAX_REQUEST_BYTES));
  const count = 200;
  let received = 0;
  let resume: () => void = () => undefined;
  const url = await startServer(undefined, (call) => {
    resume = () => call.resumeReading();
    return {
      onMessage() {
        received += 1;
        if (received === 1) call.pauseReading();
      },
      onEnd: () => call.end({ code: status.OK, details: "" }),
    };
  });
  const answer = send(url, Array(count).fill(message), STREAM);
  await vi.waitFor(() => expect(received).toBe(1));
  resume();
  expect((await answer).grpcStatus).toBe(status.OK);
  expect(received).toBe(count);
});
