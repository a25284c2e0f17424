import { expect, test } from "vitest";
import { jobKeyText } from "../../src/core/job-call.ts";
import { createPriceMap } from "../../src/pricing/price-map.ts";

const MAX_U64 = 2n ** 64n - 1n;
const prices = createPriceMap(
  new Map([
    [jobKeyText(1n, 0), 1_000_000_000_000_000n],
    [jobKeyText(MAX_U64, 2 ** 32 - 1), 2n ** 200n],
  ]),
);

test("A job has exactly the price that the operator gave it", async () => {
  expect(await prices.priceOf({ serviceId: 1n, jobIndex: 0 })).toEqual({ priceWei: 1_000_000_000_000_000n });
  expect(await prices.priceOf({ serviceId: MAX_U64, jobIndex: 2 ** 32 - 1 })).toEqual({
    priceWei: 2n ** 200n,
  });
});

test("A job without a price has none: not that of another job or service", async () => {
  expect(await prices.priceOf({ serviceId: 1n, jobIndex: 1 })).toBeUndefined();
  expect(await prices.priceOf({ serviceId: 0n, jobIndex: 0 })).toBeUndefined();
  expect(await prices.priceOf({ serviceId: MAX_U64 - 1n, jobIndex: 2 ** 32 - 1 })).toBeUndefined();
});
