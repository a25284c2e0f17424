import { once } from "node:events";
import { connect } from "node:http2";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Metadata, status } from "@grpc/grpc-js";
import { hexToBytes } from "viem";
import { expect, onTestFinished, test } from "vitest";
import { GetPriceRequestSchema, GetPriceResponseSchema } from "../../../src/gen/pricing_engine/pricing_pb.ts";
import { EngineClient } from "../../../src/parts/pricing-engine/engine-client.ts";
import { accounts } from "../../helpers/accounts.ts";
import {
  jobRequest,
  PAYMENT,
  parse,
  proofFor,
  soon,
  startServer,
  UNKNOWN_FIELD,
} from "./pricing-server-harness.ts";

test("Unknown fields reach the engine and the client", async () => {
  const { engine, ask } = await startServer({ findPayment: async () => PAYMENT });
  const request = Buffer.concat([jobRequest(), UNKNOWN_FIELD]);
  engine.faults.tamper = (response) => {
    response.$unknown = [{ no: 100, wireType: 2, data: UNKNOWN_FIELD.subarray(2) }];
  };
  const { message } = await ask(request);
  expect(engine.calls[0]?.request.equals(request)).toBe(true);
  const { $unknown, x402Endpoint } = parse(message);
  expect($unknown?.map(({ no, data }) => [no, Buffer.from(data)])).toEqual([
    [100, UNKNOWN_FIELD.subarray(2)],
  ]);
  expect(x402Endpoint).toBe(PAYMENT.endpoint);
});

test("GetPrice passes through unchanged, both ways", async () => {
  const { engine, client } = await startServer({ findPayment: async () => PAYMENT });
  const price = create(GetPriceRequestSchema, {
    blueprintId: 9n,
    ttlBlocks: 100n,
    ...proofFor(9n),
    resourceRequirements: [{ kind: "CPU", count: 2n }],
    requester: hexToBytes(accounts.payer.address),
  });
  const request = Buffer.concat([toBinary(GetPriceRequestSchema, price), UNKNOWN_FIELD]);
  const { message = Buffer.alloc(0) } = await client.call("getPrice", request, { deadline: soon() });
  expect(engine.calls).toMatchObject([{ method: "getPrice" }]);
  expect(engine.calls[0]?.request.equals(request)).toBe(true);
  expect(message.equals(engine.calls[0]?.response ?? Buffer.alloc(0))).toBe(true);
  expect(fromBinary(GetPriceResponseSchema, message).quoteDetails).toMatchObject({
    blueprintId: 9n,
    ttlBlocks: 100n,
    totalCostRate: 0.25,
  });
});

test("Metadata passes through both ways, except the metadata of each connection", async () => {
  const { engine, ask } = await startServer();
  const bytes = Buffer.from([0, 1, 255]);
  engine.faults.initialMetadata = metadata({ "x-engine-region": ["eu", "us"], "x-engine-bin": [bytes] });
  engine.faults.trailingMetadata = metadata({ "x-engine-cost": ["5"], "grpc-status-details-bin": [bytes] });
  const sent = metadata({ "x-tenant": ["a", "b"], "x-trace-bin": [bytes], authorization: ["Bearer t"] });
  const answer = await ask(jobRequest(), { metadata: sent });
  const received = engine.calls[0]?.metadata.toJSON();
  expect(received).toMatchObject({
    "x-tenant": ["a, b"],
    "x-trace-bin": [bytes],
    authorization: ["Bearer t"],
  });
  // The engine sees jobgate's own user agent once, and no host header.
  expect(received?.["user-agent"]).toEqual([expect.stringMatching(/^grpc-node-js\/\S+$/)]);
  expect(Object.keys(received ?? {})).not.toContain("host");
  expect(answer.initialMetadata?.toJSON()).toMatchObject({
    "x-engine-region": ["eu, us"],
    "x-engine-bin": [bytes],
  });
  expect(answer.status.metadata.toJSON()).toMatchObject({
    "x-engine-cost": ["5"],
    "grpc-status-details-bin": [bytes],
  });
});

test("Payment options are added to an answer with a content-length", async () => {
  const { engine, ask } = await startServer({ findPayment: async () => PAYMENT });
  await ask();
  const framed = 5 + (engine.calls[0]?.response?.length ?? 0);
  engine.faults.initialMetadata = metadata({ "content-length": [String(framed)] });
  const answer = await ask();
  expect(answer.status).toMatchObject({ code: status.OK });
  expect(engine.calls[1]?.response?.length).toBe(framed - 5);
  expect(parse(answer.message).x402Endpoint).toBe(PAYMENT.endpoint);
  expect(answer.initialMetadata?.getMap()).not.toHaveProperty("content-length");
});

function metadata(fields: Record<string, (string | Buffer)[]>): Metadata {
  const made = new Metadata();
  for (const [key, values] of Object.entries(fields)) for (const value of values) made.add(key, value);
  return made;
}

const CODES = Object.values(status).filter(
  (code): code is status => typeof code === "number" && code !== status.OK,
);

test.each(CODES)("An error with code %i is returned with its text and metadata", async (code) => {
  const { engine, ask } = await startServer({ findPayment: async () => PAYMENT });
  const details = `no: 100% of "café" #${code}? a%2Fb`;
  const errorMetadata = metadata({ "x-retry-in": ["7"], "grpc-status-details-bin": [Buffer.from([8, 5])] });
  engine.faults.initialMetadata = metadata({ "x-engine-region": ["eu"] });
  engine.faults.fail = { code, details, metadata: errorMetadata };
  const answer = await ask();
  expect(answer.status).toMatchObject({ code, details });
  expect(answer.message).toBeUndefined();
  expect(answer.status.metadata.getMap()).toMatchObject({ "x-retry-in": "7" });
  expect(answer.status.metadata.get("grpc-status-details-bin")).toEqual([Buffer.from([8, 5])]);
  expect(answer.initialMetadata?.get("x-engine-region")).toEqual(["eu"]);
});

test("The engine's refusals are returned unchanged", async () => {
  const { ask } = await startServer();
  expect((await ask(jobRequest(9))).status).toMatchObject({
    code: status.NOT_FOUND,
    details: "job is not priced",
  });
  expect((await ask(Buffer.alloc(0))).status).toMatchObject({
    code: status.INVALID_ARGUMENT,
    details: "requester must be 20 bytes, not zero",
  });
});

test("An engine that is down is UNAVAILABLE at once, and its address is in the log alone", async () => {
  const { engine, ask, lines } = await startServer({ findPayment: async () => PAYMENT });
  await engine.stop();
  expect((await ask()).status).toMatchObject({
    code: status.UNAVAILABLE,
    details: "The pricing engine cannot be reached. Try again later.",
  });
  await ask();
  expect(lines).toEqual([
    expect.objectContaining({
      level: 40,
      code: "UNAVAILABLE",
      reason: expect.stringContaining(String(engine.port)) as string,
    }),
  ]);
});

test("An engine that answers CANCELLED when the deadline is over is DEADLINE_EXCEEDED", async () => {
  const { engine } = await startServer();
  const upstream = new EngineClient(engine.url);
  onTestFinished(() => upstream.stop());
  engine.faults.fail = { code: status.CANCELLED, details: "Timeout expired" };
  const call = (deadline: Date) => upstream.call("getJobPrice", jobRequest(), { deadline });
  expect((await call(soon(90))).status.code).toBe(status.DEADLINE_EXCEEDED);
  expect((await call(soon())).status.code).toBe(status.CANCELLED);
});

test("A deadline that passes is DEADLINE_EXCEEDED without the engine's address", async () => {
  const { engine, server } = await startServer();
  engine.faults.delayMs = 3_600_000;
  // The gRPC server ends a call at its own deadline too; this client waits for whichever answer comes first.
  const answer = await fetch(`http://${server.address}/pricing_engine.PricingEngine/GetJobPrice`, {
    method: "POST",
    headers: { "content-type": "application/grpc-web+proto", "grpc-timeout": "150m" },
    body: Buffer.concat([Buffer.alloc(5), Buffer.alloc(0)]),
  });
  expect(answer.headers.get("grpc-status")).toBe(String(status.DEADLINE_EXCEEDED));
  expect(answer.headers.get("grpc-message")).not.toContain(String(engine.port));
});

test("The client's deadline is the engine's, and 30 s where there is none", async () => {
  const { engine, server, ask } = await startServer();
  const deadline = soon(600_000);
  await ask(jobRequest(), { deadline });
  expect(Math.abs((engine.calls[0]?.deadlineMs ?? 0) - deadline.getTime())).toBeLessThan(60_000);
  await askWithoutDeadline(server.address);
  const leftMs = (engine.calls[1]?.deadlineMs ?? 0) - Date.now();
  expect(leftMs).toBeGreaterThan(15_000);
  expect(leftMs).toBeLessThan(31_000);
  engine.faults.delayMs = 3_600_000;
  const late = await ask(jobRequest(), { deadline: soon(100) });
  expect(late.status.code).toBe(status.DEADLINE_EXCEEDED);
});

/** Calls as a client does that sets no deadline. */
async function askWithoutDeadline(address: string): Promise<void> {
  const session = connect(`http://${address}`);
  const stream = session.request({
    ":method": "POST",
    ":path": "/pricing_engine.PricingEngine/GetJobPrice",
    "content-type": "application/grpc",
    te: "trailers",
  });
  const request = jobRequest();
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(request.length, 1);
  stream.end(Buffer.concat([prefix, request]));
  stream.resume();
  const [trailers] = (await once(stream, "trailers")) as [Record<string, string>];
  session.destroy();
  expect(trailers["grpc-status"]).toBe("0");
}

test("A call that the client cancels is cancelled at the engine", async () => {
  const { engine, ask } = await startServer();
  engine.faults.delayMs = 3_600_000;
  const control = new AbortController();
  const asked = ask(jobRequest(), { signal: control.signal });
  await expect.poll(() => engine.calls.length).toBe(1);
  control.abort();
  expect((await asked).status.code).toBe(status.CANCELLED);
  await expect.poll(() => engine.calls[0]?.cancelled).toBe(true);
});

test("A request or an answer over 4 MiB is refused", async () => {
  const { engine, ask } = await startServer();
  const padded = (bytes: number) => {
    const filler = Buffer.alloc(bytes);
    const length = Buffer.from([
      (bytes & 127) | 128,
      ((bytes >> 7) & 127) | 128,
      ((bytes >> 14) & 127) | 128,
      bytes >> 21,
    ]);
    return Buffer.concat([Buffer.from([0xa2, 0x06]), length, filler]);
  };
  const request = jobRequest();
  const fits = Buffer.concat([request, padded(4 * 1024 * 1024 - request.length - 6)]);
  expect(fits.length).toBe(4 * 1024 * 1024);
  expect((await ask(fits)).status.code).toBe(status.OK);
  engine.faults.rawAnswer = Buffer.alloc(4 * 1024 * 1024 + 1);
  expect((await ask()).status.code).toBe(status.RESOURCE_EXHAUSTED);
});
