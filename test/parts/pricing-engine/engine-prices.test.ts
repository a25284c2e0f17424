import { fromBinary } from "@bufbuild/protobuf";
import { Metadata, status } from "@grpc/grpc-js";
import { bytesToHex } from "viem";
import { expect, onTestFinished, test } from "vitest";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import {
  GetJobPriceRequestSchema,
  type GetJobPriceResponse,
} from "../../../src/gen/pricing_engine/pricing_pb.ts";
import { PricingEngine } from "../../../src/parts/pricing-engine/pricing-engine.ts";
import type { JobQuoteTerms } from "../../../src/parts/pricing-engine/quotes.ts";
import type { PriceSource } from "../../../src/x402/prices/price-source.ts";
import { accounts } from "../../helpers/accounts.ts";
import { freePort } from "../../helpers/free-port.ts";
import { startLog } from "../../helpers/log.ts";
import { type PricingEngineOptions, startPricingEngine } from "../../helpers/pricing-engine.ts";

const JOB = { serviceId: 1n, jobIndex: 0 };
const PRICE = 10n ** 15n;
const BITS = 8;
const REAL_CLOCKS = { clock: systemClock, elapsed: systemClock };
const UNAVAILABLE = { code: "price_unavailable", headers: { "retry-after": "2" } };

/** An engine, and jobgate as its client whose time can pass and whose wall clock can be set. */
async function startPrices(options: PricingEngineOptions = {}, { maxWaitMs }: { maxWaitMs?: number } = {}) {
  const engine = await startPricingEngine({ prices: { "1/0": PRICE }, difficulty: BITS, ...options });
  onTestFinished(() => engine.stop());
  const time = { aheadMs: 0, setMs: 0, now: systemClock };
  const elapsed = () => time.now() + time.aheadMs;
  const clocks = { clock: () => elapsed() + time.setMs, elapsed };
  const log = startLog();
  const { prices } = openPrices(engine, BITS, clocks, log, maxWaitMs);
  return { engine, prices, time, log };
}

function openPrices(
  { url, signing }: Pick<Awaited<ReturnType<typeof startPricingEngine>>, "url" | "signing">,
  proofOfWorkBits: number,
  clocks: { readonly clock: Clock; readonly elapsed: Clock },
  { logger } = startLog(),
  maxWaitMs?: number,
): { prices: PriceSource } {
  const bindAddress = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;
  const client = new PricingEngine({
    config: { url, bindAddress, signing, proofOfWorkBits },
    ...clocks,
    logger,
    ...(maxWaitMs === undefined ? {} : { maxWaitMs }),
  });
  onTestFinished(() => client.stop());
  if (client.prices === undefined) throw new Error("no prices");
  return { prices: client.prices };
}

test("A price is the operator's signed quote, requested in the operator's name", async () => {
  const { engine, prices } = await startPrices();
  const price = await prices.priceOf(JOB);
  expect(price).toMatchObject({
    priceWei: PRICE,
    endSecs: expect.any(Number),
  });
  const { requester } = fromBinary(GetJobPriceRequestSchema, engine.calls[0]?.request ?? Buffer.alloc(0));
  expect(bytesToHex(requester)).toBe(engine.signing.operatorAddress.toLowerCase());
  expect(price?.digest).toMatch(/^[0-9a-f]{64}$/);
});

test("Each quote has its own inputs, so no two share a digest", async () => {
  const { engine, prices, time } = await startPrices({ quoteLifetimeSecs: 20 });
  const first = await prices.priceOf(JOB);
  time.aheadMs = 21_000;
  engine.quoteLifetimeSecs = 600;
  const second = await prices.priceOf(JOB);
  expect(first?.digest).not.toBe(second?.digest);
  const hashes = engine.calls.map(({ request }) => fromBinary(GetJobPriceRequestSchema, request).inputsHash);
  expect(new Set(hashes.map((hash) => bytesToHex(hash))).size).toBe(2);
});

test("A quote is the price until it expires, and then the engine is called again", async () => {
  const { engine, prices, time } = await startPrices({ quoteLifetimeSecs: 10 });
  const first = await prices.priceOf(JOB);
  const expiryMs = (first?.endSecs ?? 0) * 1000;
  engine.faults.fail = { code: status.INTERNAL, details: "disk full" };
  time.now = () => expiryMs - 200;
  expect(await prices.priceOf(JOB)).toEqual(first);
  delete engine.faults.fail;
  engine.prices.set("1/0", 2n * PRICE);
  engine.quoteLifetimeSecs = 600;
  time.now = () => expiryMs + 400;
  expect(await prices.priceOf(JOB)).toMatchObject({ priceWei: 2n * PRICE });
});

test("A request in the last third of a quote's life gets it at once, and has it renewed", async () => {
  const { engine, prices, time } = await startPrices({ quoteLifetimeSecs: 24 });
  const first = await prices.priceOf(JOB);
  time.aheadMs = 10_000;
  expect(await prices.priceOf(JOB)).toEqual(first);
  expect(engine.calls).toHaveLength(1);
  engine.prices.set("1/0", 2n * PRICE);
  engine.quoteLifetimeSecs = 600;
  engine.faults.delayMs = 50;
  time.aheadMs = 20_000;
  expect(await prices.priceOf(JOB)).toEqual(first);
  await expect.poll(() => prices.priceOf(JOB)).toMatchObject({ priceWei: 2n * PRICE });
  expect(engine.calls).toHaveLength(2);
});

test("A quote in use is renewed before it runs out, and an unused one is not", async () => {
  const { engine, prices } = await startPrices({
    prices: { "1/0": PRICE, "1/1": PRICE },
    quoteLifetimeSecs: 6,
  });
  let answeredAt = 0;
  engine.faults.tamper = () => {
    answeredAt = systemClock();
  };
  const first = await prices.priceOf(JOB);
  await prices.priceOf(JOB);
  await prices.priceOf({ ...JOB, jobIndex: 1 });
  await expect.poll(() => engine.calls[2]?.response).toBeDefined();
  expect(answeredAt).toBeLessThan((first?.endSecs ?? 0) * 1000);
  expect(fromBinary(GetJobPriceRequestSchema, engine.calls[2]?.request ?? Buffer.alloc(0))).toMatchObject(
    JOB,
  );
  await expect.poll(() => prices.priceOf(JOB)).not.toEqual(first);
});

test("Thirty jobs that are listed at once all get prices, with few calls of the engine at one time", async () => {
  const jobs = Array.from({ length: 30 }, (_, jobIndex) => ({ serviceId: 1n, jobIndex }));
  const { engine, prices } = await startPrices({
    prices: Object.fromEntries(jobs.map(({ jobIndex }) => [`1/${jobIndex}`, PRICE])),
  });
  engine.faults.delayMs = 10;
  const asked = await Promise.all(jobs.map((job) => prices.priceOf(job)));
  expect(asked.map((price) => price?.priceWei)).toEqual(jobs.map(() => PRICE));
  expect(engine.calls).toHaveLength(30);
  expect(engine.mostAtOnce).toBe(4);
});

test("A request waits for its turn at the engine for a bounded time, and the question goes on", async () => {
  const { engine, prices } = await startPrices({}, { maxWaitMs: 100 });
  engine.faults.delayMs = 300;
  await expect(prices.priceOf(JOB)).rejects.toMatchObject(UNAVAILABLE);
  await expect.poll(() => engine.calls[0]?.response).toBeDefined();
  await expect.poll(() => prices.priceOf(JOB)).toMatchObject({ priceWei: PRICE });
  expect(engine.calls).toHaveLength(1);
});

test("A hundred concurrent requests for one job call the engine once, and other jobs call it separately", async () => {
  const { engine, prices } = await startPrices({ prices: { "1/0": PRICE, "1/1": 7n, "2/0": 8n } });
  const storm = Array.from({ length: 100 }, () => prices.priceOf(JOB));
  const others = [
    prices.priceOf({ serviceId: 1n, jobIndex: 1 }),
    prices.priceOf({ serviceId: 2n, jobIndex: 0 }),
  ];
  expect(new Set((await Promise.all(storm)).map((price) => price?.digest)).size).toBe(1);
  expect((await Promise.all(others)).map((price) => price?.priceWei)).toEqual([7n, 8n]);
  expect(engine.calls).toHaveLength(3);
});

test("The engine is not called again for 5 s about a job that it does not price", async () => {
  const { engine, prices, time } = await startPrices();
  const unpriced = { serviceId: 1n, jobIndex: 9 };
  const startedAt = systemClock();
  time.now = () => startedAt;
  expect(await prices.priceOf(unpriced)).toBeUndefined();
  engine.prices.set("1/9", 3n);
  time.aheadMs = 4_500;
  time.setMs = 3_600_000;
  expect(await prices.priceOf(unpriced)).toBeUndefined();
  expect(engine.calls).toHaveLength(1);
  time.aheadMs = 5_100;
  time.setMs = 0;
  expect(await prices.priceOf(unpriced)).toMatchObject({ priceWei: 3n });
});

test("A job index above 255 has no price, and the engine is not called", async () => {
  const { engine, prices } = await startPrices({ prices: { "1/255": 1n, "1/256": 2n } });
  expect(await prices.priceOf({ serviceId: 1n, jobIndex: 256 })).toBeUndefined();
  expect(engine.calls).toHaveLength(0);
  expect(await prices.priceOf({ serviceId: 1n, jobIndex: 255 })).toMatchObject({ priceWei: 1n });
});

test("An engine that is down gives no price; soon after its return it does", async () => {
  const { engine, prices, time, log } = await startPrices({ port: await freePort(), quoteLifetimeSecs: 2 });
  const { endSecs = 0 } = (await prices.priceOf(JOB)) ?? {};
  await engine.stop();
  await expect.poll(() => systemClock()).toBeGreaterThan(endSecs * 1_000);
  const failedAt = systemClock();
  time.now = () => failedAt;
  await expect(prices.priceOf(JOB)).rejects.toMatchObject(UNAVAILABLE);
  // The failure is remembered: another try would log another line.
  await expect(prices.priceOf(JOB)).rejects.toMatchObject(UNAVAILABLE);
  expect(log.lines).toEqual([
    expect.objectContaining({
      level: 40,
      job: "1/0",
      msg: "pricing engine returned no quote",
      reason: expect.stringContaining("UNAVAILABLE") as string,
    }),
  ]);
  const back = await startPricingEngine({ port: engine.port, prices: { "1/0": 5n }, difficulty: BITS });
  onTestFinished(() => back.stop());
  // The failure is remembered only briefly.
  time.now = systemClock;
  await expect.poll(() => prices.priceOf(JOB).catch(() => undefined)).toMatchObject({ priceWei: 5n });
});

test("A storm of requests calls a failing engine once in 300 ms", async () => {
  const { engine, prices, time } = await startPrices();
  const now = systemClock();
  time.now = () => now;
  engine.faults.fail = { code: status.INTERNAL, details: "disk full" };
  const storm = async () => {
    const outcomes = await Promise.allSettled(Array.from({ length: 50 }, () => prices.priceOf(JOB)));
    for (const outcome of outcomes)
      expect(outcome).toMatchObject({ status: "rejected", reason: UNAVAILABLE });
  };
  await storm();
  await storm();
  expect(engine.calls).toHaveLength(1);
  time.aheadMs = 400;
  await storm();
  expect(engine.calls).toHaveLength(2);
});

test.each<{
  lie: string;
  tell: (engine: Awaited<ReturnType<typeof startPricingEngine>>) => void;
  reason: RegExp;
}>([
  {
    lie: "signed by somebody else",
    tell: ({ faults }) => {
      faults.signer = accounts.stranger;
    },
    reason: /is not signed by 0x/,
  },
  {
    lie: "with another price than was signed",
    tell: ({ faults }) => {
      faults.tamper = ({ quoteDetails }) => {
        if (quoteDetails) quoteDetails.price = new Uint8Array(32).fill(1);
      };
    },
    reason: /is not signed by 0x/,
  },
  {
    lie: "that has expired",
    tell: (engine) => {
      engine.quoteLifetimeSecs = 0;
    },
    reason: /expired at/,
  },
])("A quote $lie is no price, and an error in the log", async ({ tell, reason }) => {
  const { engine, prices, log } = await startPrices();
  tell(engine);
  await expect(prices.priceOf(JOB)).rejects.toMatchObject(UNAVAILABLE);
  expect(log.lines).toEqual([
    expect.objectContaining({ level: 50, job: "1/0", reason: expect.stringMatching(reason) as string }),
  ]);
});

test("A replayed quote for other inputs is refused", async () => {
  const { engine, prices, log } = await startPrices();
  let overheard: GetJobPriceResponse | undefined;
  engine.faults.tamper = (response) => {
    overheard = structuredClone(response);
  };
  await openPrices(engine, BITS, REAL_CLOCKS).prices.priceOf(JOB);
  expect(overheard?.quoteDetails).toMatchObject(JOB);
  engine.faults.tamper = (response) => Object.assign(response, overheard);
  await expect(prices.priceOf(JOB)).rejects.toMatchObject(UNAVAILABLE);
  expect(log.lines).toEqual([
    expect.objectContaining({ level: 50, reason: "the quote is not for what was asked" }),
  ]);
});

test.each<{ what: string; quoteInstead: Partial<JobQuoteTerms> }>([
  { what: "service", quoteInstead: { serviceId: 2n } },
  { what: "job", quoteInstead: { jobIndex: 1 } },
  { what: "requester", quoteInstead: { requester: "0x000000000000000000000000000000000000beef" } },
])("A good quote of the operator's for another $what is refused", async ({ quoteInstead }) => {
  const { engine, prices, log } = await startPrices();
  engine.faults.quoteInstead = quoteInstead;
  await expect(prices.priceOf(JOB)).rejects.toMatchObject(UNAVAILABLE);
  expect(log.lines).toEqual([
    expect.objectContaining({ level: 50, reason: "the quote is not for what was asked" }),
  ]);
});

test("A refused proof is replaced once, and not a second time", async () => {
  const { engine, prices, time } = await startPrices();
  await prices.priceOf(JOB);
  engine.faults.fail = { code: status.INVALID_ARGUMENT, details: "invalid proof of work" };
  time.aheadMs = 1_000;
  await expect(prices.priceOf({ serviceId: 1n, jobIndex: 1 })).rejects.toMatchObject(UNAVAILABLE);
  expect(engine.calls).toHaveLength(3);
  const timestamps = engine.calls.map(
    ({ request }) => fromBinary(GetJobPriceRequestSchema, request).challengeTimestamp,
  );
  expect(timestamps[1]).toBe(timestamps[0]);
  expect(timestamps[2]).toBeGreaterThan(timestamps[0] ?? 0n);
});

test("Proofs of too few bits give no price, and the log says why", async () => {
  const engine = await startPricingEngine({ prices: { "1/0": PRICE }, difficulty: 24 });
  onTestFinished(() => engine.stop());
  const log = startLog();
  const { prices } = openPrices(engine, 1, REAL_CLOCKS, log);
  await expect(prices.priceOf(JOB)).rejects.toMatchObject(UNAVAILABLE);
  expect(log.lines[0]).toMatchObject({
    level: 40,
    reason: expect.stringContaining("INVALID_ARGUMENT: invalid proof of work") as string,
  });
});

test("A malformed answer is refused", async () => {
  const { engine, prices, log } = await startPrices();
  engine.faults.rawAnswer = Buffer.from("not protobuf");
  engine.faults.trailingMetadata = new Metadata();
  await expect(prices.priceOf(JOB)).rejects.toMatchObject(UNAVAILABLE);
  expect(log.lines[0]).toMatchObject({ level: 50, reason: "the quote is not a GetJobPriceResponse" });
});
