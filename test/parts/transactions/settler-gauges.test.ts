import { expect, test } from "vitest";
import { settlerGauges } from "../../../src/parts/transactions/settler-gauges.ts";

test("A settler's metrics show each account's balance, and what waits to be mined where this process sends", () => {
  const network = "eip155:8453";
  const balances = new Map([["0xA1", 5n * 10n ** 15n]]);
  const balance = { gauge: "jobgate_settler_balance", labels: { network, address: "0xA1" }, value: 0.005 };
  expect(settlerGauges({ network, balances, unmined: 3 })).toEqual([
    balance,
    { gauge: "jobgate_settler_unmined", labels: { network }, value: 3 },
  ]);
  expect(settlerGauges({ network, balances, unmined: undefined })).toEqual([balance]);
});
