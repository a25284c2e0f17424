import { expect, test } from "vitest";
import { jobKeyText } from "../../../src/core/job-call.ts";
import { createPriceMap, offerDigest } from "../../../src/x402/prices/price-source.ts";

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

test("A job without a price does not get that of another job or service", async () => {
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
