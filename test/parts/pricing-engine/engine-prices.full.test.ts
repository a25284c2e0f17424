import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { PricingEngine } from "../../../src/parts/pricing-engine/pricing-engine.ts";
import { JobPolicies } from "../../../src/x402/prices/job-policies.ts";
import { OfferBook } from "../../../src/x402/prices/offer-book.ts";
import { PriceBook } from "../../../src/x402/prices/price-book.ts";
import { PayableTokens, type PriceSource } from "../../../src/x402/prices/price-source.ts";
import { startLog } from "../../helpers/log.ts";
import { startPricingEngine } from "../../helpers/pricing-engine.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import { NO_REQUEST_PRICES } from "../../x402/payment-fixtures.ts";
import { FIXED_RATES, USDC } from "../../x402/payments.ts";

const NO_BODY = new Uint8Array();
const bindAddress = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;

test("A call to a silent engine fails after a few seconds", async () => {
  const engine = await startPricingEngine({ prices: { "1/0": 1n } });
  onTestFinished(() => engine.stop());
  engine.faults.delayMs = 3_600_000;
  const { url, signing } = engine;
  const { logger, lines } = startLog();
  const link = new PricingEngine({ config: { url, signing, bindAddress, proofOfWorkBits: 8 }, logger });
  onTestFinished(() => link.stop());
  await expect(link.prices?.priceOf({ serviceId: 1n, jobIndex: 0 })).rejects.toMatchObject({
    code: "price_unavailable",
    headers: { "retry-after": "2" },
  });
  expect(lines[0]).toMatchObject({ reason: expect.stringContaining("DEADLINE_EXCEEDED") as string });
});

test("Requests for twelve jobs that a silent engine never priced are refused within 20 s", async () => {
  const engine = await startPricingEngine();
  onTestFinished(() => engine.stop());
  engine.faults.delayMs = 3_600_000;
  const { url, signing } = engine;
  const { logger } = startLog();
  const link = new PricingEngine({ config: { url, signing, bindAddress, proofOfWorkBits: 8 }, logger });
  onTestFinished(() => link.stop());
  const opened = await openTestStore();
  onTestFinished(() => opened.stop());
  const source = link.prices as PriceSource;
  const prices = new PriceBook({
    policies: new JobPolicies({ jobPolicies: [], defaultInvocationMode: "public_paid" }, source),
    prices: source,
    offers: new OfferBook({ ledger: opened.store, rates: FIXED_RATES, clock: systemClock, logger }),
    named: [],
    ofRequests: NO_REQUEST_PRICES,
    tokens: new PayableTokens([USDC]),
    promises: [],
    quoteTtlSecs: 300,
    clock: systemClock,
  });
  const startedAt = performance.now();
  const waits = Array.from({ length: 12 }, async (_, jobIndex) => {
    const offers = prices.findCurrent({ serviceId: 1n, jobIndex }).then((price) => price.offers(NO_BODY));
    await expect(offers).rejects.toMatchObject({ code: "price_unavailable" });
    return performance.now() - startedAt;
  });
  expect(Math.max(...(await Promise.all(waits)))).toBeLessThan(25_000);
});

test("While proofs of 18 bits are made, the main thread is idle most of the time", async () => {
  const jobs = Array.from({ length: 20 }, (_, i) => ({ serviceId: BigInt(i), jobIndex: 0 }));
  const prices = Object.fromEntries(jobs.map(({ serviceId }) => [`${serviceId}/0`, 10n ** 15n]));
  const engine = await startPricingEngine({ prices, difficulty: 18 });
  onTestFinished(() => engine.stop());
  const { url, signing } = engine;
  const { logger } = startLog();
  const config = { url, signing, bindAddress, proofOfWorkBits: 18 };
  const link = new PricingEngine({ config, logger, clock: systemClock });
  onTestFinished(() => link.stop());
  await link.prices?.priceOf({ serviceId: 0n, jobIndex: 0 });
  const before = performance.eventLoopUtilization();
  for (const job of jobs) expect(await link.prices?.priceOf(job)).toMatchObject({ priceWei: 10n ** 15n });
  const { active, idle, utilization } = performance.eventLoopUtilization(before);
  console.log(
    `${jobs.length} proofs in ${(active + idle).toFixed(0)} ms; main thread active ${active.toFixed(0)} ms`,
  );
  // The delay of the event loop would measure the scheduler of a busy machine too.
  expect(utilization).toBeLessThan(0.5);
});
