import { expect, test } from "vitest";
import { refundGauges } from "../../../src/parts/refunds/gauges.ts";
import type { RefundSum } from "../../../src/parts/refunds/store/ledger.ts";
import type { StoreTotals } from "../../../src/store/store.ts";

const NOW = 1_900_000_000_000;
const LABELS = { state: "owed", network: "eip155:1", asset: "0xa", symbol: "USDC" } as const;
const SUM: RefundSum = { ...LABELS, refunds: 2, amount: 30n, oldestAt: NOW - 1_500 };
const TOTALS = { sums: { refunds: [SUM] } } as unknown as StoreTotals;

const short = { network: "eip155:1", asset: "0xa" };

function read(totals: StoreTotals | undefined) {
  return Object.fromEntries(
    refundGauges(() => [short]).map((gauge) => [gauge.name, gauge.read(totals, NOW)]),
  );
}

test("Refunds are measured by token and state, with the age of the oldest in seconds", () => {
  expect(read(TOTALS)).toEqual({
    jobgate_refunds: [[2, LABELS]],
    jobgate_refunds_amount: [[30, LABELS]],
    jobgate_refunds_oldest_age_seconds: [[1.5, LABELS]],
    jobgate_refund_account_short: [[1, short]],
  });
});

test("A store that does not answer leaves out all but the tokens that are short", () => {
  expect(read(undefined)).toEqual({
    jobgate_refunds: [],
    jobgate_refunds_amount: [],
    jobgate_refunds_oldest_age_seconds: [],
    jobgate_refund_account_short: [[1, short]],
  });
});

test("An age is never negative, though the clocks of two machines differ", () => {
  const early = { sums: { refunds: [{ ...SUM, oldestAt: NOW + 5 }] } } as unknown as StoreTotals;
  expect(read(early).jobgate_refunds_oldest_age_seconds).toEqual([[0, LABELS]]);
});
