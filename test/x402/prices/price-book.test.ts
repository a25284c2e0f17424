import pino from "pino";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Job } from "../../../src/config/config.ts";
import { JobPolicies } from "../../../src/x402/prices/job-policies.ts";
import { OfferBook } from "../../../src/x402/prices/offer-book.ts";
import { PriceBook } from "../../../src/x402/prices/price-book.ts";
import { PayableTokens, priceUnavailable } from "../../../src/x402/prices/price-source.ts";
import type { Offer } from "../../../src/x402/wire/offer.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import { NO_REQUEST_PRICES } from "../payment-fixtures.ts";
import { FIXED_RATES, inOther, JOB, PRICE_WEI, read, signedPayload, USDC } from "../payments.ts";

it("An offer is confirmed until its price ends, and refused from then on", async () => {
  let now = 1_800_000_000_000;
  const clock = () => now;
  const opened = await openTestStore({ clock });
  const digest = "ab".repeat(32);
  const endSecs = now / 1000 + 30;
  const source = { priceOf: async () => ({ priceWei: PRICE_WEI, digest, endSecs }) };
  const logger = pino({ level: "silent" });
  const prices = new PriceBook({
    policies: new JobPolicies({ jobPolicies: [], defaultInvocationMode: "public_paid" }, source),
    prices: source,
    offers: new OfferBook({ ledger: opened.store, rates: FIXED_RATES, clock, logger }),
    named: [],
    ofRequests: NO_REQUEST_PRICES,
    tokens: new PayableTokens([USDC]),
    promises: [],
    quoteTtlSecs: 300,
    clock,
  });
  const price = await prices.findCurrent(JOB);
  const [offer] = await price.offers(new Uint8Array());
  if (offer === undefined) throw new Error("no offer was made");
  expect(offer.ttlSecs).toBe(30);
  now += 29_000;
  expect(await price.confirm(offer)).toEqual({ digest });
  now += 1_000;
  await expect(price.confirm(offer)).rejects.toMatchObject({ code: "payment_mismatch" });
  await opened.stop();
});

it("A request queries an unavailable price source once, and still pays an offer made earlier", async () => {
  const opened = await openTestStore();
  onTestFinished(() => opened.stop());
  let queries = 0;
  let isAvailable = true;
  const source = {
    async priceOf() {
      queries += 1;
      if (!isAvailable) throw priceUnavailable("the pricing engine is busy with other jobs");
      return { priceWei: PRICE_WEI };
    },
  };
  const prices = new PriceBook({
    policies: new JobPolicies({ jobPolicies: [], defaultInvocationMode: "public_paid" }, source),
    prices: source,
    offers: new OfferBook({
      ledger: opened.store,
      rates: FIXED_RATES,
      clock: Date.now,
      logger: pino({ level: "silent" }),
    }),
    named: [],
    ofRequests: NO_REQUEST_PRICES,
    tokens: new PayableTokens([USDC]),
    promises: [],
    quoteTtlSecs: 300,
    clock: Date.now,
  });
  const [offer] = await (await prices.findCurrent(JOB)).offers(new Uint8Array());
  const payment = read(await signedPayload({ offer: offer as Offer }));
  isAvailable = false;
  queries = 0;
  const price = await prices.findCurrent(JOB);
  await expect(price.offers(new Uint8Array())).rejects.toMatchObject({ code: "price_unavailable" });
  expect(await price.match(payment, new Uint8Array())).toMatchObject({ amount: offer?.amount });
  expect(queries).toBe(1);
});

const PROMISES = ["refund", "ask"].map((name) => ({ name, text: "", ability: "" }));

describe("The promise of the offer that a payment answers", () => {
  /** Returns the price of a job under a configuration that promises `onFailure`. */
  async function openPrices() {
    const opened = await openTestStore();
    onTestFinished(() => opened.stop());
    const source = { priceOf: async () => ({ priceWei: PRICE_WEI }) };
    const logger = pino({ level: "silent" });
    return (onFailure: Job["onFailure"]) => {
      const jobs = onFailure === undefined ? [] : [{ ...JOB, onFailure }];
      // Each configuration is that of a process of its own.
      const prices = new PriceBook({
        policies: new JobPolicies({ jobs, jobPolicies: [], defaultInvocationMode: "public_paid" }, source),
        prices: source,
        offers: new OfferBook({ ledger: opened.store, rates: FIXED_RATES, clock: Date.now, logger }),
        named: [],
        ofRequests: NO_REQUEST_PRICES,
        tokens: new PayableTokens([USDC]),
        promises: PROMISES,
        quoteTtlSecs: 300,
        clock: Date.now,
      });
      return prices.findCurrent(JOB);
    };
  }

  it.each<[shown: Job["onFailure"], now: Job["onFailure"], counts: Job["onFailure"]]>([
    ["refund", undefined, "refund"],
    ["refund", "ask", "refund"],
    ["ask", undefined, "ask"],
    ["ask", "refund", "refund"],
    [undefined, "refund", "refund"],
    [undefined, undefined, undefined],
  ])("Was %s, is %s: %s counts, whether a payment names its offer or not", async (shown, now, counts) => {
    const priceAt = await openPrices();
    const [offer] = await (await priceAt(shown)).offers(new Uint8Array());
    const payload = await signedPayload({ offer: offer as Offer });
    const price = await priceAt(now);
    for (const payment of [read(payload), read(inOther(payload), "x-other")])
      expect((await price.match(payment, new Uint8Array())).onFailure).toBe(counts);
  });
});
