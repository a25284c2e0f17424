import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import {
  amountText,
  largestPriceWei,
  MAX_U64,
  parseDollars,
  priceText,
  smallestPriceWei,
  tokenAmount,
} from "../../src/core/amounts.ts";

describe("Published vectors", () => {
  test.each([
    [10n ** 15n, "3200.00", 200, 6, 3264000n],
    [306372549n, "3200.00", 200, 6, 0n],
    [306372550n, "3200.00", 200, 6, 1n],
    [250000000000000000n, "3217.123456789", 137, 6, 815299512n],
    [123456789012345678901n, "3217.12345678901234567890", 77, 6, 400233984966n],
    [5764607523034234n, "3200", 0, 18, 18446744073709548800n],
    [5764607523034235n, "3200", 0, 18, 18446744073709552000n],
  ])(
    "%d wei at rate %s with %d bps and %d decimals is exact",
    (priceWei, ratePerNativeUnit, markupBps, decimals, amount) => {
      expect(tokenAmount(priceWei, { ratePerNativeUnit, markupBps, decimals })).toBe(amount);
    },
  );

  test("largestPriceWei is the last price that fits u64", () => {
    const terms = { ratePerNativeUnit: "3200", markupBps: 0, decimals: 18 };
    expect(tokenAmount(5764607523034234n, terms) <= MAX_U64).toBe(true);
    expect(tokenAmount(5764607523034235n, terms) > MAX_U64).toBe(true);
    expect(largestPriceWei(terms)).toBe(5764607523034234n);
  });
});

describe("For all prices, rates, markups and decimals", () => {
  const digits = (maxLength: number) =>
    fc.array(fc.integer({ min: 0, max: 9 }), { maxLength }).map((list) => list.join(""));
  const rates = fc
    .tuple(fc.bigInt({ min: 0n, max: 10n ** 30n }), digits(30))
    .filter(([whole, fraction]) => whole > 0n || /[1-9]/.test(fraction))
    .map(([whole, fraction]) => (fraction === "" ? `${whole}` : `${whole}.${fraction}`));
  const terms = fc.record({
    ratePerNativeUnit: rates,
    markupBps: fc.integer({ min: 0, max: 65535 }),
    decimals: fc.integer({ min: 0, max: 36 }),
  });
  const prices = fc.bigInt({ min: 0n, max: 2n ** 256n - 1n });

  test("The amount is the floor of the exact fraction", () => {
    fc.assert(
      fc.property(prices, terms, (priceWei, given) => {
        // amount <= exact < amount + 1, where exact = wei · rate/10^n · (1 + bps/10^4) · 10^(decimals - 18)
        const amount = tokenAmount(priceWei, given);
        const places = given.ratePerNativeUnit.split(".")[1]?.length ?? 0;
        const rateTimesPlaces = BigInt(given.ratePerNativeUnit.replace(".", ""));
        const unit = 10n ** BigInt(places + 4 + 18);
        const exact =
          priceWei * rateTimesPlaces * (10000n + BigInt(given.markupBps)) * 10n ** BigInt(given.decimals);
        expect(amount * unit <= exact && exact < (amount + 1n) * unit).toBe(true);
      }),
    );
  });

  test("The bounds for the operator are the lowest price above 0 and the highest that fits", () => {
    fc.assert(
      fc.property(terms, (given) => {
        const smallest = smallestPriceWei(given);
        expect(tokenAmount(smallest, given)).toBeGreaterThan(0n);
        expect(tokenAmount(smallest - 1n, given)).toBe(0n);
        const largest = largestPriceWei(given);
        expect(tokenAmount(largest, given)).toBeLessThanOrEqual(MAX_U64);
        expect(tokenAmount(largest + 1n, given)).toBeGreaterThan(MAX_U64);
      }),
    );
  });
});

test.each<[string, number | undefined, string]>([
  ["640000", 6, "0.64 T"],
  ["1000000", 6, "1 T"],
  ["1234567890", 6, "1234.56789 T"],
  ["0", 6, "0 T"],
  ["7", 0, "7 T"],
  ["640000", undefined, "640000 base units of T"],
])("%s units of a token with %s decimals read as %s", (units, decimals, text) => {
  expect(amountText(units, "T", decimals)).toBe(text);
});

it.each([
  ["$0.01", 10n ** 16n, "$0.01"],
  ["$1", 10n ** 18n, "$1.00"],
  ["$1.50", 15n * 10n ** 17n, "$1.50"],
  ["$0.000001", 10n ** 12n, "$0.000001"],
  ["$123.456", 123_456n * 10n ** 15n, "$123.456"],
])("%s is exactly %s of 10^-18 dollars, shown as %s", (text, amount, shown) => {
  const price = parseDollars(text);
  expect(price).toEqual({ unit: "usd", amount });
  expect(price && priceText(price)).toBe(shown);
});

it.each(["0.01", "$", "$.5", "$01", "$1.", "$0", "$0.000000", "$0.0000001", "$-1", "$1e3", "$1,000", " $1"])(
  "%j is not a price",
  (text) => expect(parseDollars(text)).toBeUndefined(),
);
