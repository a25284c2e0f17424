import { expect, it } from "vitest";
import { parseDollars, priceText } from "../../src/core/price.ts";

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
  "%j is no price",
  (text) => expect(parseDollars(text)).toBeUndefined(),
);
