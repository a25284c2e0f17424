import pino from "pino";
import { expect, it } from "vitest";
import type { JobQuote } from "../../../src/pricing/job-quote.ts";
import { JobCatalog } from "../../../src/x402/prices/job-catalog.ts";
import { OfferBook } from "../../../src/x402/prices/offer-book.ts";
import { PriceBook } from "../../../src/x402/prices/price-book.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import { FIXED_RATES, JOB, PRICE_WEI, USDC } from "../payments.ts";

it("An offer at a quote's price is confirmed until the quote ends, and refused from then on", async () => {
  let now = 1_800_000_000_000;
  const clock = () => now;
  const opened = await openTestStore({ clock });
  const quote = { digest: "ab".repeat(32), expiry: BigInt(now / 1000 + 30), confidentiality: 0 } as JobQuote;
  const source = { priceOf: async () => ({ priceWei: PRICE_WEI, quote }) };
  const logger = pino({ level: "silent" });
  const prices = new PriceBook({
    catalog: new JobCatalog({ jobPolicies: [], defaultInvocationMode: "public_paid" }, source),
    prices: source,
    offers: new OfferBook({ ledger: opened.store, rates: FIXED_RATES, clock, logger }),
    quotes: undefined,
    tokens: [USDC],
    quoteTtlSecs: 300,
    clock,
  });
  const price = await prices.findCurrent(JOB);
  const [offer] = await price.offers(new Uint8Array());
  if (offer === undefined) throw new Error("no offer was made");
  expect(offer.ttlSecs).toBe(30);
  now += 29_000;
  expect(await price.confirm(offer)).toMatchObject({ quoteDigest: quote.digest });
  now += 1_000;
  await expect(price.confirm(offer)).rejects.toMatchObject({ code: "payment_mismatch" });
  await opened.stop();
});
