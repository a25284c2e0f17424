import pino from "pino";
import { beforeEach, expect, it } from "vitest";
import { PayableTokens, PriceChecks } from "../../../src/x402/prices/price-checks.ts";
import { FIXED_RATES, JOB, PRICE_WEI, USDC } from "../payments.ts";

const logged: { msg: string }[] = [];
const logger = pino({ base: null }, { write: (line) => logged.push(JSON.parse(line)) });
let now: number;
beforeEach(() => {
  now = 1_800_000_000_000;
  logged.length = 0;
});

function checksAt(rates = FIXED_RATES) {
  return new PriceChecks({ rates, clock: () => now, logger });
}

it.each([
  ["0", 0n],
  ["less than a unit", 1n],
  ["more than u64", 2n ** 200n],
])("A job whose price is %s in every token is not for sale, and the log says so once", async (_, wei) => {
  let priceWei = wei;
  const prices = checksAt().payablePrices({ priceOf: async () => ({ priceWei }) }, new PayableTokens([USDC]));
  for (let n = 0; n < 3; n++) expect(await prices.priceOf(JOB)).toBeUndefined();
  expect(logged).toMatchObject([{ level: 50, job: "1/0", priceWei: String(wei) }]);
  priceWei = PRICE_WEI;
  expect(await prices.priceOf(JOB)).toEqual({ priceWei });
  priceWei = wei;
  expect(await prices.priceOf(JOB)).toBeUndefined();
  expect(logged).toHaveLength(2);
});

it("A price is kept while a token has no rate, because that token may take it later", async () => {
  const rates = { rateOf: () => undefined };
  const prices = checksAt(rates).payablePrices(
    { priceOf: async () => ({ priceWei: 1n }) },
    new PayableTokens([USDC]),
  );
  expect(await prices.priceOf(JOB)).toEqual({ priceWei: 1n });
  expect(logged).toEqual([]);
});

it("A price is none with 7 s or less left, and the log says so once for a job", async () => {
  const price = { priceWei: PRICE_WEI, endSecs: now / 1000 + 8 };
  const prices = checksAt().payablePrices({ priceOf: async () => price }, new PayableTokens([USDC]));
  expect(await prices.priceOf(JOB)).toEqual(price);
  now += 1_000;
  for (let n = 0; n < 3; n++) {
    await expect(prices.priceOf(JOB)).rejects.toMatchObject({ code: "price_unavailable" });
  }
  expect(logged).toMatchObject([{ level: 40, job: "1/0", secsLeft: 7 }]);
});

it("A job whose price no token can take is not priced, even when the price ends too soon", async () => {
  const price = { priceWei: 1n, endSecs: now / 1000 };
  const prices = checksAt().payablePrices({ priceOf: async () => price }, new PayableTokens([USDC]));
  expect(await prices.priceOf(JOB)).toBeUndefined();
});
