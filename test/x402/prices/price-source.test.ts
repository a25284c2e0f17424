import pino from "pino";
import { beforeEach, expect, it, test } from "vitest";
import { jobKeyText } from "../../../src/core/job-call.ts";
import {
  createPriceMap,
  offerDigest,
  PayableTokens,
  PriceChecks,
} from "../../../src/x402/prices/price-source.ts";
import { EURC, FIXED_RATES, JOB, PRICE_WEI, USDC } from "../payments.ts";

const MAX_U64 = 2n ** 64n - 1n;
const prices = createPriceMap(
  new Map([
    [jobKeyText(1n, 0), 1_000_000_000_000_000n],
    [jobKeyText(MAX_U64, 2 ** 32 - 1), 2n ** 200n],
  ]),
);

test("A job has exactly its configured price", async () => {
  expect(await prices.priceOf({ serviceId: 1n, jobIndex: 0 })).toEqual({ priceWei: 1_000_000_000_000_000n });
  expect(await prices.priceOf({ serviceId: MAX_U64, jobIndex: 2 ** 32 - 1 })).toEqual({
    priceWei: 2n ** 200n,
  });
});

test("A job without a price does not get the price of another job or service", async () => {
  expect(await prices.priceOf({ serviceId: 1n, jobIndex: 1 })).toBeUndefined();
  expect(await prices.priceOf({ serviceId: 0n, jobIndex: 0 })).toBeUndefined();
  expect(await prices.priceOf({ serviceId: MAX_U64 - 1n, jobIndex: 2 ** 32 - 1 })).toBeUndefined();
});

const VECTOR = "3c8a91e92f234b924a547ceb93ec9ae1978917fac770b094ff2afb09b0d65b62";
const AT_NS = 1_700_000_000_000_000_000n;

test("The digest of the specification's example price matches", () => {
  expect(offerDigest({ serviceId: 42n, jobIndex: 0 }, 500n, AT_NS)).toBe(VECTOR);
});

test("Every part of a quote changes its digest", () => {
  const digests = [
    offerDigest({ serviceId: 43n, jobIndex: 0 }, 500n, AT_NS),
    offerDigest({ serviceId: 42n, jobIndex: 1 }, 500n, AT_NS),
    offerDigest({ serviceId: 42n, jobIndex: 0 }, 501n, AT_NS),
    offerDigest({ serviceId: 42n, jobIndex: 0 }, 500n, AT_NS + 1n),
  ];
  expect(new Set([VECTOR, ...digests]).size).toBe(5);
});

test("The largest IDs, price and time have a digest", () => {
  const job = { serviceId: 2n ** 64n - 1n, jobIndex: 2 ** 32 - 1 };
  expect(offerDigest(job, 2n ** 256n - 1n, 2n ** 128n - 1n)).toMatch(/^[0-9a-f]{64}$/);
});

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

test("A job is sold in the tokens that name it, and in the entries without jobs whose token no other entry has for it", () => {
  const [named, other] = [
    { ...JOB, name: "named" },
    { serviceId: 1n, jobIndex: 1, name: "other" },
  ];
  const forNamed = { ...USDC, payTo: EURC.asset, jobs: ["named"] };
  const permit2 = { ...USDC, transferMethod: "other" };
  const tokens = new PayableTokens([USDC, permit2, EURC, forNamed], [named, other]);
  const paidTo = (job: typeof JOB) =>
    tokens
      .of(job)
      .for({})
      .map(({ symbol, transferMethod, payTo }) => [symbol, transferMethod, payTo]);
  expect(paidTo(named)).toEqual([
    ["EURC", "eip3009", EURC.payTo],
    ["USDC", "eip3009", EURC.asset],
  ]);
  const rest = [
    ["USDC", "eip3009", USDC.payTo],
    ["USDC", "other", USDC.payTo],
    ["EURC", "eip3009", EURC.payTo],
  ];
  expect(paidTo(other)).toEqual(rest);
  expect(paidTo({ serviceId: 2n, jobIndex: 0 })).toEqual(rest);
  expect(tokens.of(named).for({})).toBe(tokens.of(named).for({}));
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

it("A price with 7 s or less left is not offered, and the log says so once for a job", async () => {
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
