import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { callFrames, FrameConnection, resetStreams } from "../../helpers/http2-frames.ts";
import { startServer } from "./pricing-server-harness.ts";

const ENHANCE_YOUR_CALM = 0xb;
const GET_PRICE = "/pricing_engine.PricingEngine/GetPrice";

test("A connection that resets too many streams is ended, and another's call is answered", async () => {
  const { server, ask } = await startServer();
  const codes = await resetStreams(server.address, GET_PRICE, 3_000, 10_000);
  expect((await ask()).status.code).toBe(status.OK);
  expect(codes.length).toBeGreaterThan(0);
  expect(new Set(codes)).toEqual(new Set([ENHANCE_YOUR_CALM]));
});

test.each([
  [100, 2_000],
  [1, 100_000],
])("Metadata of %i headers of %i bytes ends the connection", async (count, bytes) => {
  const { server } = await startServer();
  const connection = new FrameConnection(server.address);
  const filler = Array.from({ length: count }, (_, i) => [`x-filler-${i}`, "a".repeat(bytes)]);
  await connection.send(callFrames(1, GET_PRICE, Object.fromEntries(filler)));
  await connection.closed;
});
