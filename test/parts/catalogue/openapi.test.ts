import { expect, it } from "vitest";
import { parseDollars } from "../../../src/core/amounts.ts";
import { discoveryPrice } from "../../../src/parts/catalogue/openapi.ts";

const usd = (text: string) => {
  const price = parseDollars(text);
  if (price === undefined) throw new Error(`${text} is no price`);
  return price;
};

it("A price by a rule is described by the rule, also where it is a ceiling", () => {
  const range = { from: usd("$0.01"), upTo: usd("$1"), rule: "$0.01 per KiB", headers: [] };
  const price = { priceWei: range.from.amount, currency: "USD", range } as const;
  const described = { mode: "dynamic", currency: "USD", max: "1", description: "$0.01 per KiB" };
  expect(discoveryPrice({ price })).toEqual({ ...described, min: "0.01" });
  expect(discoveryPrice({ price, charge: ["used"] })).toEqual({ ...described, min: "0" });
});
