import { execFile } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:http2";
import { promisify } from "node:util";
import { create, fromBinary, toBinary, toJson } from "@bufbuild/protobuf";
import { Metadata, status } from "@grpc/grpc-js";
import { hexToBytes, keccak256 } from "viem";
import { expect, onTestFinished, test } from "vitest";
import {
  GetJobPriceRequestSchema,
  GetJobPriceResponseSchema,
  GetPriceRequestSchema,
  GetPriceResponseSchema,
} from "../../src/gen/pricing_engine/pricing_pb.ts";
import { createEngineClient, type EngineCallOptions } from "../../src/pricing/engine-client.ts";
import { PricingServer } from "../../src/pricing/pricing-server.ts";
import { solveChallenge } from "../../src/pricing/proof-of-work.ts";
import type { PayWith, ReceivedQuote } from "../../src/pricing/quote-payment.ts";
import { accounts } from "../helpers/accounts.ts";
import { startPricingEngine } from "../helpers/pricing-engine.ts";
import { startLog } from "./log.ts";

const BITS = 8;
const PRICE = 10n ** 15n;
const JOB = { serviceId: 1n, jobIndex: 0 };
const bindAddress = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;

const PAYMENT = {
  options: [
    {
      network: "eip155:84532",
      asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
      symbol: "USDC",
      amount: "3264000",
      payTo: accounts.payTo.address,
      scheme: "exact",
    },
  ],
  endpoint: "https://operator.example.com/x402/jobs/1/0",
} as const;

interface ServerSetup {
  readonly payWith?: PayWith;
  /** Default: true. */
  readonly canCheckQuotes?: boolean;
}

/** A client that talks to jobgate, which talks to an engine. */
async function startServer({ payWith, canCheckQuotes = true }: ServerSetup = {}) {
  const engine = await startPricingEngine({ prices: { "1/0": PRICE }, difficulty: BITS });
  onTestFinished(() => engine.stop());
  const upstream = createEngineClient({ url: engine.url });
  onTestFinished(() => upstream.stop());
  const { logger, lines } = startLog();
  const config = { bindAddress, ...(canCheckQuotes ? { signing: engine.signing } : {}) };
  const server = new PricingServer({ config, client: upstream, logger, ...(payWith ? { payWith } : {}) });
  await server.start();
  onTestFinished(() => server.stop());
  const client = createEngineClient({ url: `http://${server.address}` });
  onTestFinished(() => client.stop());
  const ask = (request = jobRequest(), options: Partial<EngineCallOptions> = {}) =>
    client.call("getJobPrice", request, { deadline: soon(), ...options });
  return { engine, server, client, ask, lines };
}

function soon(ms = 5_000): Date {
  return new Date(Date.now() + ms);
}

function jobRequest(jobIndex = 0): Buffer {
  const request = create(GetJobPriceRequestSchema, {
    ...JOB,
    jobIndex,
    ...proofFor(1n),
    requester: hexToBytes(accounts.payer.address),
    inputsHash: hexToBytes(keccak256("0x")),
  });
  return Buffer.from(toBinary(GetJobPriceRequestSchema, request));
}

function proofFor(id: bigint) {
  const timestamp = BigInt(Math.floor(Date.now() / 1000));
  const proofOfWork = solveChallenge({ id, timestamp, bits: BITS }, () => false) ?? new Uint8Array();
  return { challengeTimestamp: timestamp, proofOfWork };
}

/** A field that no version of the messages here knows. */
const UNKNOWN_FIELD = Buffer.concat([Buffer.from([0xa2, 0x06, 5]), Buffer.from("later")]);

function parse(message: Buffer | undefined) {
  return fromBinary(GetJobPriceResponseSchema, message ?? new Uint8Array());
}

test("A quote for a job that can be paid says how; what the engine said stays in front byte for byte", async () => {
  const received: ReceivedQuote[] = [];
  const { engine, ask } = await startServer({
    async payWith(quote) {
      received.push(quote);
      return PAYMENT;
    },
  });
  const { message } = await ask();
  const sent = engine.calls[0]?.response ?? Buffer.alloc(0);
  expect(message?.subarray(0, sent.length).equals(sent)).toBe(true);
  const { settlementOptions, x402Endpoint, ...rest } = parse(message);
  expect(settlementOptions).toEqual([expect.objectContaining(PAYMENT.options[0])]);
  expect(x402Endpoint).toBe(PAYMENT.endpoint);
  const { settlementOptions: none, x402Endpoint: nowhere, ...original } = parse(sent);
  expect([none, nowhere]).toEqual([[], ""]);
  expect(rest).toEqual(original);
  expect(received).toEqual([
    {
      job: JOB,
      priceWei: PRICE,
      verified: true,
      quote: expect.objectContaining({ requester: accounts.payer.address.toLowerCase() }) as unknown,
    },
  ]);
});

test("Without x402, or for a job that is not for sale, an answer is what the engine sent", async () => {
  const answers = [await startServer(), await startServer({ payWith: async () => undefined })];
  for (const { engine, ask } of answers) {
    const { message, status: ended } = await ask();
    expect(ended.code).toBe(status.OK);
    expect(message?.equals(engine.calls[0]?.response ?? Buffer.alloc(0))).toBe(true);
  }
});

test("What the engine set is left alone", async () => {
  const option = {
    network: "eip155:1",
    asset: "0x1",
    symbol: "OWN",
    amount: "1",
    payTo: "0x2",
    scheme: "own",
  };
  const own = create(GetJobPriceResponseSchema, { settlementOptions: [option], x402Endpoint: "https://own" });
  const { engine, ask } = await startServer({ payWith: async () => PAYMENT });
  engine.faults.tamper = (response) => {
    response.settlementOptions = own.settlementOptions;
    response.x402Endpoint = own.x402Endpoint;
  };
  const both = await ask();
  expect(both.message?.equals(engine.calls[0]?.response ?? Buffer.alloc(0))).toBe(true);

  engine.faults.tamper = (response) => {
    response.settlementOptions = own.settlementOptions;
  };
  const onlyOptions = parse((await ask()).message);
  expect(onlyOptions.settlementOptions.map(({ symbol }) => symbol)).toEqual(["OWN"]);
  expect(onlyOptions.x402Endpoint).toBe(PAYMENT.endpoint);

  engine.faults.tamper = (response) => {
    response.x402Endpoint = own.x402Endpoint;
  };
  const onlyEndpoint = parse((await ask()).message);
  expect(onlyEndpoint.settlementOptions.map(({ symbol }) => symbol)).toEqual(["USDC"]);
  expect(onlyEndpoint.x402Endpoint).toBe("https://own");
});

test("Fields that jobgate does not know reach the engine, and the client", async () => {
  const { engine, ask } = await startServer({ payWith: async () => PAYMENT });
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

test("A quote that is not the operator's goes through with nothing added, and an error in the log", async () => {
  let asked = 0;
  const { engine, ask, lines } = await startServer({
    async payWith() {
      asked++;
      return PAYMENT;
    },
  });
  engine.faults.signer = accounts.stranger;
  const { message } = await ask();
  expect(message?.equals(engine.calls[0]?.response ?? Buffer.alloc(0))).toBe(true);
  expect(lines).toEqual([
    expect.objectContaining({ level: 50, reason: expect.stringContaining("is signed by") as string }),
  ]);
  expect(asked).toBe(0);
});

test("Where quotes cannot be checked, who says how to pay is told so", async () => {
  const received: ReceivedQuote[] = [];
  const { engine, ask } = await startServer({
    canCheckQuotes: false,
    async payWith(quote) {
      received.push(quote);
      return PAYMENT;
    },
  });
  engine.faults.signer = accounts.stranger;
  expect(parse((await ask()).message).x402Endpoint).toBe(PAYMENT.endpoint);
  expect(received).toEqual([{ job: JOB, priceWei: PRICE, verified: false }]);
});

test("An answer goes through when nobody can say how to pay it, or it is no message at all", async () => {
  const { engine, ask, lines } = await startServer({
    payWith: () => Promise.reject(new Error("the store is gone")),
  });
  const { message } = await ask();
  expect(message?.equals(engine.calls[0]?.response ?? Buffer.alloc(0))).toBe(true);
  engine.faults.rawAnswer = Buffer.from("not protobuf");
  expect((await ask()).message?.toString()).toBe("not protobuf");
  expect(lines.map(({ level }) => level)).toEqual([50, 50]);
});

test("GetPrice goes through as it is, both ways", async () => {
  const { engine, client } = await startServer({ payWith: async () => PAYMENT });
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

test("Metadata goes through both ways, without what belongs to each connection", async () => {
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
  // The engine sees jobgate's own user agent once, and nobody's name for the host.
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

function metadata(fields: Record<string, (string | Buffer)[]>): Metadata {
  const made = new Metadata();
  for (const [key, values] of Object.entries(fields)) for (const value of values) made.add(key, value);
  return made;
}

const CODES = Object.values(status).filter(
  (code): code is status => typeof code === "number" && code !== status.OK,
);

test.each(CODES)("An error with code %i comes back with its text and metadata", async (code) => {
  const { engine, ask } = await startServer({ payWith: async () => PAYMENT });
  const details = `no: 100% of "café" #${code}?`;
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

test("The engine's own refusals come back", async () => {
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

test("An engine that is down is UNAVAILABLE, within a second", async () => {
  const { engine, ask } = await startServer({ payWith: async () => PAYMENT });
  await engine.stop();
  const started = performance.now();
  expect((await ask()).status.code).toBe(status.UNAVAILABLE);
  expect(performance.now() - started).toBeLessThan(1_000);
});

test("The client's deadline is the engine's, and 30 s where there is none", async () => {
  const { engine, server, ask } = await startServer();
  const deadline = soon(4_000);
  await ask(jobRequest(), { deadline });
  expect(Math.abs((engine.calls[0]?.deadlineMs ?? 0) - deadline.getTime())).toBeLessThan(500);
  await askWithoutDeadline(server.address);
  const leftMs = (engine.calls[1]?.deadlineMs ?? 0) - Date.now();
  expect(leftMs).toBeGreaterThan(28_000);
  expect(leftMs).toBeLessThan(30_500);
  engine.faults.delayMs = 1_000;
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

test("A call that the client gives up is given up at the engine", async () => {
  const { engine, ask } = await startServer();
  engine.faults.delayMs = 3_000;
  const control = new AbortController();
  const asked = ask(jobRequest(), { signal: control.signal });
  await expect.poll(() => engine.calls.length).toBe(1);
  control.abort();
  expect((await asked).status.code).toBe(status.CANCELLED);
  await expect.poll(() => engine.calls[0]?.cancelled, { timeout: 1_000 }).toBe(true);
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

test("A client that knows nothing finds the service and can call it", async () => {
  const { server } = await startServer({ payWith: async () => PAYMENT });
  const methods = await bufCurl("--list-methods", `http://${server.address}`);
  expect(methods.trim().split("\n")).toEqual([
    "grpc.health.v1.Health/Check",
    "grpc.health.v1.Health/List",
    "grpc.health.v1.Health/Watch",
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "pricing_engine.PricingEngine/GetJobPrice",
    "pricing_engine.PricingEngine/GetPrice",
  ]);
  const asJson = JSON.stringify(
    toJson(GetJobPriceRequestSchema, fromBinary(GetJobPriceRequestSchema, jobRequest())),
  );
  const quote = await bufCurl(
    "-d",
    asJson,
    `http://${server.address}/pricing_engine.PricingEngine/GetJobPrice`,
  );
  expect(JSON.parse(quote)).toMatchObject({
    quoteDetails: { serviceId: "1" },
    settlementOptions: [{ amount: "3264000" }],
  });
  const service = '{"service":"pricing_engine.PricingEngine"}';
  const health = await bufCurl("-d", service, `http://${server.address}/grpc.health.v1.Health/Check`);
  expect(JSON.parse(health)).toEqual({ status: "SERVING" });
});

/** An independent client, which learns the messages by reflection. */
async function bufCurl(...args: string[]): Promise<string> {
  const all = ["curl", "--protocol", "grpc", "--http2-prior-knowledge", "--reflect", ...args];
  return (await promisify(execFile)("node_modules/.bin/buf", all, { timeout: 10_000 })).stdout;
}

test("A server that is stopped answers the calls in hand first, and its address is free again", async () => {
  const { engine, server, ask } = await startServer();
  engine.faults.delayMs = 300;
  const asked = ask();
  await expect.poll(() => engine.calls.length).toBe(1);
  await Promise.all([server.stop(), server.stop()]);
  expect((await asked).status.code).toBe(status.OK);
  expect((await ask()).status.code).toBe(status.UNAVAILABLE);
});

test("An address that is taken is a failure to start that leaves nothing behind", async () => {
  const { server, engine } = await startServer();
  const client = createEngineClient({ url: engine.url });
  onTestFinished(() => client.stop());
  const port = Number(server.address.split(":")[1]);
  const { logger } = startLog();
  const second = new PricingServer({ config: { bindAddress: { ...bindAddress, port } }, client, logger });
  await expect(second.start()).rejects.toThrow(/EADDRINUSE|bind/);
  await second.stop();
});
