import { expect, test } from "vitest";
import { readCharge } from "../../../src/parts/apis/charge.ts";

const PRICE = { unit: "usd", amount: 10n ** 16n } as const;

test.each([
  ["x-charge", "0", { units: "0" }],
  ["X-Charge", "2500", { units: "2500" }],
  ["x-charge", "25%", { basisPoints: 2_500 }],
  ["x-charge", "0.5%", { basisPoints: 50 }],
  ["x-charge", "$0.004", { units: "4000" }],
  ["x-charge", "$0", { units: "0" }],
  ["x-charge", "$0.00", { units: "0" }],
  ["settlement-overrides", '{"amount":"1000"}', { units: "1000" }],
  ["settlement-overrides", '{"amount":"50%"}', { basisPoints: 5_000 }],
  ["settlement-overrides", '{"amount":"$0.01"}', { units: "10000" }],
  ["settlement-overrides", "{}", undefined],
  ["content-type", "text/plain", undefined],
])("%s: %s of a ceiling of 10000 units at $0.01 is charged %j", (name, value, charge) => {
  expect(readCharge([[name, value]], { ceiling: "10000", price: PRICE })).toEqual({ charge });
});

test.each(["10001", "100.01%", "$0.011", "-1", "1e3", "", "free", "1.5"])(
  "A charge of %j is a problem",
  (value) => {
    expect(readCharge([["x-charge", value]], { ceiling: "10000", price: PRICE })).toHaveProperty("problem");
  },
);

test.each(['{"amount":"1","amount":"2"}', '{"amount":1e1}', "[1", "null"])(
  "Settlement-Overrides: %s is a problem",
  (value) => {
    const reading = readCharge([["settlement-overrides", value]], { ceiling: "10000", price: PRICE });
    expect(reading).toHaveProperty("problem");
  },
);

test("Dollars are rounded up to the next unit", () => {
  const reading = readCharge([["x-charge", "$0.004"]], { ceiling: "3", price: PRICE });
  expect(reading).toEqual({ charge: { units: "2" } });
});

test("Dollars are a problem for a price that is not in dollars", () => {
  const sold = { ceiling: "10000", price: undefined };
  expect(readCharge([["x-charge", "$0.001"]], sold)).toHaveProperty("problem");
});

test("Charges that say the same are one charge, and others are a problem", () => {
  const read = (...headers: [string, string][]) => readCharge(headers, { ceiling: "10000", price: PRICE });
  const override = (amount: string): [string, string] => ["settlement-overrides", JSON.stringify({ amount })];
  expect(read(["x-charge", "4000"], override("$0.004"))).toEqual({ charge: { units: "4000" } });
  expect(read(["x-charge", "25%"], override("2500"))).toEqual({ charge: { basisPoints: 2_500 } });
  expect(read(["x-charge", "10000"], override("10001"))).toHaveProperty("problem");
  expect(read(["x-charge", "100"], ["x-charge", "200"])).toHaveProperty("problem");
  expect(read(["x-charge", "100"], override("200"))).toHaveProperty("problem");
  expect(read(override("100"), override("free"))).toHaveProperty("problem");
});
