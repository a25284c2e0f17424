import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { Metadata, status } from "@grpc/grpc-js";
import { expect, onTestFinished, test } from "vitest";
import { EngineClient } from "../../../src/parts/pricing-engine/engine-client.ts";
import { freePort } from "../../helpers/free-port.ts";
import { startPricingEngine } from "../../helpers/pricing-engine.ts";

/** A deadline that is not meant to pass. */
const later = () => new Date(Date.now() + 60_000);
const EMPTY = Buffer.alloc(0);

function openClient(url: string): EngineClient {
  const client = new EngineClient(url);
  onTestFinished(() => client.stop());
  return client;
}

test("An engine that is down is UNAVAILABLE at once, and found soon after its return", async () => {
  const engine = await startPricingEngine({ port: await freePort() });
  const client = openClient(engine.url);
  const call = () => client.call("getJobPrice", EMPTY, { deadline: later() });
  expect((await call()).status.code).toBe(status.INVALID_ARGUMENT);

  await engine.stop();
  const downAt = performance.now();
  // Long enough that every wait between tries to connect has grown as far as it will.
  while (performance.now() - downAt < 1_500) {
    expect((await call()).status.code).toBe(status.UNAVAILABLE);
  }

  const back = await startPricingEngine({ port: engine.port });
  onTestFinished(() => back.stop());
  await expect.poll(async () => (await call()).status.code).toBe(status.INVALID_ARGUMENT);
});

test("An UNAVAILABLE call is tried three times in all", async () => {
  const engine = await startPricingEngine();
  onTestFinished(() => engine.stop());
  engine.faults.fail = { code: status.UNAVAILABLE, details: "no trusted execution environment here" };
  const client = openClient(engine.url);
  const answer = await client.call("getJobPrice", EMPTY, { deadline: later() });
  expect(answer.status).toMatchObject({
    code: status.UNAVAILABLE,
    details: "no trusted execution environment here",
  });
  expect(engine.calls).toHaveLength(3);
});

test.each([status.INVALID_ARGUMENT, status.NOT_FOUND, status.INTERNAL, status.RESOURCE_EXHAUSTED])(
  "An engine that answers with code %i is not called twice",
  async (code) => {
    const engine = await startPricingEngine();
    onTestFinished(() => engine.stop());
    engine.faults.fail = { code, details: "no" };
    const answer = await openClient(engine.url).call("getPrice", EMPTY, { deadline: later() });
    expect(answer.status.code).toBe(code);
    expect(answer.message).toBeUndefined();
    expect(engine.calls).toHaveLength(1);
  },
);

test("A call ends at its deadline, whether it has reached the engine or not", async () => {
  const engine = await startPricingEngine();
  onTestFinished(() => engine.stop());
  engine.faults.delayMs = 3_600_000;
  const deadline = new Date(Date.now() + 100);
  const late = await openClient(engine.url).call("getPrice", EMPTY, { deadline });
  expect(late.status.code).toBe(status.DEADLINE_EXCEEDED);
});

test("An aborted call is cancelled at the engine, and none is made with its signal", async () => {
  const engine = await startPricingEngine();
  onTestFinished(() => engine.stop());
  engine.faults.delayMs = 3_600_000;
  const client = openClient(engine.url);
  const control = new AbortController();
  const asked = client.call("getPrice", EMPTY, { deadline: later(), signal: control.signal });
  await expect.poll(() => engine.calls.length).toBe(1);
  control.abort();
  expect((await asked).status.code).toBe(status.CANCELLED);
  await expect.poll(() => engine.calls[0]?.cancelled).toBe(true);
  const aborted = await client.call("getPrice", EMPTY, { deadline: later(), signal: control.signal });
  expect(aborted.status.code).toBe(status.CANCELLED);
  expect(engine.calls).toHaveLength(1);
});

test("A stopped client ends its calls in progress and makes no more", async () => {
  const engine = await startPricingEngine();
  onTestFinished(() => engine.stop());
  engine.faults.delayMs = 3_600_000;
  const client = openClient(engine.url);
  const asked = client.call("getPrice", EMPTY, { deadline: later() });
  await expect.poll(() => engine.calls.length).toBe(1);
  client.stop();
  expect((await asked).status.code).toBe(status.CANCELLED);
  expect((await client.call("getPrice", EMPTY, { deadline: later() })).status.code).toBe(status.CANCELLED);
});

test("Credentials of the URL are sent with calls that have none of their own", async () => {
  const engine = await startPricingEngine();
  onTestFinished(() => engine.stop());
  const client = openClient(engine.url.replace("//", "//operator:hunter2@"));
  await client.call("getPrice", EMPTY, { deadline: later() });
  const metadata = new Metadata();
  metadata.set("authorization", "Bearer mine");
  await client.call("getPrice", EMPTY, { deadline: later(), metadata });
  const basic = `Basic ${Buffer.from("operator:hunter2").toString("base64")}`;
  expect(engine.calls.map((call) => call.metadata.get("authorization"))).toEqual([[basic], ["Bearer mine"]]);
});

test.each([
  [
    "`#` and `?` escaped, as tonic does",
    "job %231 of caf%C3%A9%3F 100%25 a&b/c",
    "job #1 of café? 100% a&b/c",
  ],
  ["escapes that it holds itself", "bad path a%252Fb and %253A, 5%2526", "bad path a%2Fb and %3A, 5%26"],
])("An error's text is decoded as the engine meant it: %s", async (_, sent, meant) => {
  const server = createServer();
  server.on("stream", (stream) => {
    stream.respond(
      { ":status": 200, "content-type": "application/grpc", "grpc-status": "9", "grpc-message": sent },
      { endStream: true },
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => new Promise<void>((resolve) => server.close(() => resolve())));
  const client = new EngineClient(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const answer = await client.call("getPrice", EMPTY, { deadline: later() });
  client.stop();
  expect(answer.status).toMatchObject({
    code: status.FAILED_PRECONDITION,
    details: meant,
  });
});
