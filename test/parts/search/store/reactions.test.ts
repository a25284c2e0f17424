import { expect, test } from "vitest";
import { SEARCH } from "../../../../src/parts/search/store/module.ts";
import type { Known } from "../../../../src/store/machine/changes.ts";
import { toPaymentRow } from "../../../../src/store/payment-row.ts";
import { paymentIntent, START_MS } from "../../../store/store-fixtures.ts";

const HASH = `0x${"ab".repeat(32)}`;
const PAYMENT = {
  ...toPaymentRow(paymentIntent(1), 7, START_MS),
  settlement: JSON.stringify({ transaction: HASH }),
};
const ADDED = [{ kind: "add", row: { kind: "transaction", entry: 7 } }];
const known = {} as Known;

test("The transaction that contradicts a payment finds the payment's call", () => {
  const change = { kind: "paymentContradicted", payment: PAYMENT, at: START_MS } as const;
  expect(SEARCH.on?.paymentContradicted?.(change, known)).toMatchObject(ADDED);
});

test("A transaction that sent money for a payment finds its call, and one for no payment finds none", () => {
  const sent = { payment: PAYMENT, transaction_hash: HASH } as never;
  expect(SEARCH.on?.moneySent?.({ kind: "moneySent", sent }, known)).toMatchObject(ADDED);
  const fee = { payment: undefined, transaction_hash: HASH } as never;
  expect(SEARCH.on?.moneySent?.({ kind: "moneySent", sent: fee }, known)).toEqual([]);
});
