import { expect, test } from "vitest";
import { leastChargeOf } from "../../../src/parts/metered/config.ts";
import { configOf, TOKEN, X402 } from "../../config/config-folder.ts";
import { testMistakes } from "../../config/mistake-cases.ts";

const GATEWAY = `service_id = 1\n${X402}${TOKEN}currency = "USD"\n`;
const PERMIT2 = `${GATEWAY.replace('"eip3009"', '"permit2"')}rpc_url = "http://127.0.0.1:8545"\n`;
const job = (keys: string) => `[[jobs]]\njob_index = 0\n${keys}\n`;

testMistakes([
  {
    promise: "A charge is one that jobgate knows",
    toml: `${GATEWAY}${job('charge = "metered" #!')}`,
    keyPath: "jobs[0].charge",
    message:
      /is "metered"; expected "before", "after" or "used", or one of the first two and "used" in an array/,
  },
  {
    promise: "A list of charges is not empty",
    toml: `${GATEWAY}${job("charge = [] #!")}`,
    keyPath: "jobs[0].charge",
    message: /is empty; expected an array of "before" or "after", and "used"/,
  },
  {
    promise: "A metered job is charged before or after it runs where it is not metered",
    toml: `${GATEWAY}${job('charge = ["before", "after", "used"] #!')}`,
    keyPath: "jobs[0].charge",
    message: /has "before" and "after"; expected one of them, or one of them and "used"/,
  },
  {
    promise: "A metered job needs a token of a method that can charge a part",
    toml: `${GATEWAY}${job('price = "$0.01"\ncharge = "used" #!')}`,
    keyPath: "jobs[0].charge",
    message:
      /is "used", which only Permit2 pays; expected an accepted token with transfer_method = "permit2"/,
  },
  {
    promise: "A least charge is a part of the price, or dollars",
    toml: `${GATEWAY}${job('min_charge = "101%" #!')}`,
    keyPath: "jobs[0].min_charge",
    message: /expected a part of the price such as "10%", or dollars such as "\$0.01"/,
  },
  ...["0.01", "0,01", "$1,000"].map((text) => ({
    promise: `Dollars are suggested for a least charge of ${text}`,
    toml: `${GATEWAY}${job(`min_charge = "${text}" #!`)}`,
    keyPath: "jobs[0].min_charge",
    message: /did you mean/,
    suggestion: text === "$1,000" ? "$1000" : "$0.01",
  })),
  {
    promise: "A least charge is for a metered job",
    toml: `${GATEWAY}${job('min_charge = "10%" #!')}`,
    keyPath: "jobs[0].min_charge",
    message: /is set for a job that is charged its price; expected charge = "used" beside it/,
  },
  {
    promise: "A least charge in dollars is for a price in dollars",
    toml: `${PERMIT2}${job('price_wei = "1000"\ncharge = "used"\nmin_charge = "$0.01" #!')}`,
    keyPath: "jobs[0].min_charge",
    message: /is in dollars, and the price is not; expected a part of it such as "10%"/,
  },
]);

test("A metered job has its charges and the least of them", async () => {
  const keys = 'price = "$0.01"\ncharge = ["used", "before"]\nmin_charge = "10%"';
  const [metered] = (await configOf(`${PERMIT2}${job(keys)}`)).x402?.jobs ?? [];
  expect(metered?.charge).toEqual(["used", "before"]);
  expect(metered?.leastCharge?.({ amount: "1000", priceWei: 10n ** 16n })).toBe("100");
});

const CEILING = { amount: "3264000", priceWei: 1_000_000_000_000_000n };

test.each<[string, Parameters<typeof leastChargeOf>[0], string]>([
  ["a share of the ceiling, rounded up", { basisPoints: 3_333 }, "1087892"],
  ["an amount of the price's currency", { unit: "usd", amount: 500_000_000_000_000n }, "1632000"],
  ["at most the ceiling", { unit: "usd", amount: 10n ** 30n }, "3264000"],
])("A metered job is charged at least %s", (_, least, units) => {
  expect(leastChargeOf(least)(CEILING)).toBe(units);
});
