import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { hexToBytes, keccak256 } from "viem";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  GetJobPriceRequestSchema,
  GetJobPriceResponseSchema,
} from "../../src/gen/pricing_engine/pricing_pb.ts";
import { EngineClient } from "../../src/parts/pricing-engine/engine-client.ts";
import { readJobQuote } from "../../src/parts/pricing-engine/job-quote.ts";
import { solveChallenge } from "../../src/parts/pricing-engine/proof-of-work.ts";
import { accounts } from "./accounts.ts";
import { type ReferenceEngine, startPricingEngine } from "./pricing-engine.ts";

type Request = MessageInitShape<typeof GetJobPriceRequestSchema>;

const BITS = 8;
let engine: ReferenceEngine;
let client: EngineClient;
let good: Request;

beforeAll(async () => {
  engine = await startPricingEngine({ prices: { "42/3": 10n ** 18n, "42/256": 1n }, difficulty: BITS });
  client = new EngineClient(engine.url);
  good = { ...proofAt(0), serviceId: 42n, jobIndex: 3, inputsHash: hexToBytes(keccak256("0x")) };
  good = { ...good, requester: hexToBytes(accounts.payer.address) };
});

afterAll(async () => {
  client.stop();
  await engine.stop();
});

/** Returns a proof for service 42 with a timestamp this many seconds from now. */
function proofAt(seconds: number) {
  const timestamp = BigInt(Math.floor(Date.now() / 1000) + seconds);
  const proofOfWork = solveChallenge({ id: 42n, timestamp, bits: BITS }, () => false) ?? new Uint8Array();
  return { challengeTimestamp: timestamp, proofOfWork };
}

function ask(request: Request) {
  const bytes = toBinary(GetJobPriceRequestSchema, create(GetJobPriceRequestSchema, request));
  return client.call("getJobPrice", Buffer.from(bytes), { deadline: new Date(Date.now() + 50_000) });
}

test("The engine quotes a priced job, signed by the operator for the requester", async () => {
  const { message = new Uint8Array() } = await ask(good);
  const response = fromBinary(GetJobPriceResponseSchema, message);
  const read = await readJobQuote(response, engine.signing, Date.now());
  expect(read).toMatchObject({
    kind: "quote",
    quote: { serviceId: 42n, jobIndex: 3, priceWei: 10n ** 18n, inputsHash: keccak256("0x") },
  });
});

test("The engine refuses in the order of its specification", async () => {
  const wrong = [
    { change: { requester: new Uint8Array(20) }, code: status.INVALID_ARGUMENT, details: /requester/ },
    { change: { inputsHash: new Uint8Array(31) }, code: status.INVALID_ARGUMENT, details: /inputs_hash/ },
    { change: proofAt(-40), code: status.INVALID_ARGUMENT, details: /timestamp/ },
    { change: { proofOfWork: new Uint8Array(48) }, code: status.INVALID_ARGUMENT, details: /proof of work/ },
    { change: { requireTee: true }, code: status.UNAVAILABLE, details: /trusted execution/ },
    { change: { jobIndex: 4 }, code: status.NOT_FOUND, details: /not priced/ },
    { change: { jobIndex: 256 }, code: status.INTERNAL, details: /job index/ },
  ];
  for (const [i, { code, details }] of wrong.entries()) {
    // This mistake combined with all later ones: the first is reported.
    const changes = wrong
      .slice(i)
      .toReversed()
      .map(({ change }) => change);
    const answer = await ask(Object.assign({}, good, ...changes) as Request);
    expect([status[answer.status.code], answer.status.details]).toEqual([
      status[code],
      expect.stringMatching(details),
    ]);
  }
});

test("A proof is valid within 30 s of its timestamp, and for its own service only", async () => {
  // The machine may take seconds for a call.
  for (const seconds of [-20, 28]) {
    expect((await ask({ ...good, ...proofAt(seconds) })).status.code).toBe(status.OK);
  }
  for (const seconds of [-32, 40]) {
    expect((await ask({ ...good, ...proofAt(seconds) })).status.code).toBe(status.INVALID_ARGUMENT);
  }
  engine.prices.set("43/3", 1n);
  expect((await ask({ ...good, serviceId: 43n })).status).toMatchObject({
    code: status.INVALID_ARGUMENT,
    details: "invalid proof of work",
  });
});
