import { expect, test } from "vitest";
import { feeOf } from "../../../src/parts/transactions/chain.ts";

const GAS = { gasUsed: "0x5208", effectiveGasPrice: "0x3b9aca07" };

test("A transaction costs its gas at the price that it paid, and on a rollup what its data costs below", () => {
  expect(feeOf(GAS)).toBe(21_000n * 1_000_000_007n);
  expect(feeOf({ ...GAS, l1Fee: "0x1f" })).toBe(21_000n * 1_000_000_007n + 31n);
  expect(feeOf({ ...GAS, l1Fee: null })).toBe(21_000n * 1_000_000_007n);
});

test("The cost is unknown where the node does not tell the price", () => {
  expect(feeOf({ gasUsed: "0x5208" })).toBeUndefined();
  expect(feeOf({ ...GAS, gasUsed: null })).toBeUndefined();
});
