import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { expect, onTestFinished, test } from "vitest";
import { callFrames, FrameConnection, resetStreams } from "../helpers/http2-frames.ts";
import { startDelivery } from "./harness.ts";

const ENHANCE_YOUR_CALM = 0xb;
const NO_KEEPALIVE = { timeMs: 3_600_000, timeoutMs: 3_600_000 };
const ACK = "/jobgate.v1.RunnerService/Ack";

test("A connection that resets too many streams is ended, and another's Ack is answered", async () => {
  const { address, accept, connect } = await startDelivery();
  const runner = connect();
  const stream = await runner.subscribe();
  await accept();
  const call = await stream.next();
  const codes = await resetStreams(address, ACK, 3_000, 10_000);
  expect(await runner.ack(call)).toEqual([1]);
  expect(codes.length).toBeGreaterThan(0);
  expect(new Set(codes)).toEqual(new Set([ENHANCE_YOUR_CALM]));
});

test("A connection that resets 500 streams in a short time stays open", async () => {
  const { address } = await startDelivery();
  expect(await resetStreams(address, ACK, 500)).toEqual([]);
});

const filler = (count: number, bytes: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`x-filler-${i}`, "a".repeat(bytes)]));

test.each([
  [100, 2_000],
  [1, 100_000],
])("Metadata of %i headers of %i bytes ends the connection", async (count, bytes) => {
  const { address } = await startDelivery({ keepalive: NO_KEEPALIVE });
  const connection = new FrameConnection(address);
  await connection.send(callFrames(1, ACK, filler(count, bytes)));
  await connection.closed;
});

test("A connection in use is pinged, and stays open", async () => {
  const { address } = await startDelivery({ keepalive: NO_KEEPALIVE });
  const session = connectHttp2(`http://${address}`);
  onTestFinished(() => session.destroy());
  const sending = setInterval(() => session.ping(() => undefined), 100);
  for (let pings = 0; pings < 3; pings++) await once(session, "ping");
  clearInterval(sending);
  expect(session.destroyed).toBe(false);
});

test("Clients learn the limits when they connect, and calls over them fail", async () => {
  const { address } = await startDelivery();
  const session = connectHttp2(`http://${address}`);
  onTestFinished(() => session.destroy());
  const [settings] = await once(session, "remoteSettings");
  expect(settings).toMatchObject({ maxHeaderListSize: 32 * 1024, maxConcurrentStreams: 500 });
  const headers = {
    ":method": "POST",
    ":path": "/no.Service/NoMethod",
    "content-type": "application/grpc",
    te: "trailers",
  };
  const small = session.request({ ...headers, ...filler(10, 2_000) });
  expect((await once(small, "response"))[0][":status"]).toBe(200);
  small.on("error", () => undefined);
  const large = session.request({ ...headers, ...filler(20, 2_000) });
  const [error] = await once(large, "error");
  expect(error.code).toBe("ERR_HTTP2_STREAM_ERROR");
});
