import { expect, test } from "vitest";
import type { PaymentIntent } from "../../../src/core/payment.ts";
import { type BeginRows, beginStep } from "../../../src/store/machine/payment-steps.ts";
import { Capacity, toNewCall } from "../../../src/store/new-call.ts";
import { type PaymentRow, toPaymentRow } from "../../../src/store/payment-row.ts";
import { oneTimeNonce, paidCall, paymentIntent, START_MS } from "../store-fixtures.ts";

const call = toNewCall(paidCall(), ({ body }) => body);

class MemoryBeginRows implements BeginRows {
  readonly added: PaymentRow[] = [];
  readonly used: string[] = [];

  findRepeated({ key }: PaymentIntent): PaymentRow | undefined {
    return this.added.find(({ nonce }) => nonce === key.nonce);
  }

  isNonceUsed({ key }: { readonly key: string }): boolean {
    return this.used.includes(key);
  }

  undecided() {
    return { total: 0, ofPayer: this.added.length };
  }

  openUnits(): bigint {
    return this.added.reduce((sum, { amount }) => sum + BigInt(amount), 0n);
  }

  add(intent: PaymentIntent, _call: typeof call, now: number): number {
    const callId = this.added.length + 1;
    this.added.push(toPaymentRow(intent, callId, now));
    return callId;
  }

  useNonce({ key }: { readonly key: string }): void {
    this.used.push(key);
  }
}

test("A payment that begins takes a place in the queue and uses up its one-time nonce", () => {
  const rows = new MemoryBeginRows();
  const capacity = new Capacity(0, 10);
  const begin = beginStep(rows, capacity);
  const intent = paymentIntent(1, { oneTimeNonces: [oneTimeNonce("n")] });
  expect(begin(START_MS, intent, call)).toEqual({ kind: "begun", callId: 1 });
  expect(capacity.pending).toBe(1);
  expect(rows.used).toEqual(["n"]);
});

test("A payment that is refused takes no place and uses up nothing", () => {
  const rows = new MemoryBeginRows();
  const capacity = new Capacity(0, 1);
  const begin = beginStep(rows, capacity);
  expect(begin(START_MS, paymentIntent(1), call).kind).toBe("begun");
  const second = paymentIntent(2, { oneTimeNonces: [oneTimeNonce("n")] });
  expect(begin(START_MS, paymentIntent(1), call).kind).toBe("payment_known");
  expect(begin(START_MS, second, call)).toEqual({ kind: "queue_full" });
  expect(capacity.pending).toBe(1);
  expect(rows.added).toHaveLength(1);
  expect(rows.used).toEqual([]);
});

test("The limits of a payer count what began before in the same commit", () => {
  const begin = beginStep(new MemoryBeginRows(), new Capacity(0, 10));
  const { amount } = paymentIntent(1);
  const funds = String(BigInt(amount) * 3n - 1n);
  const limits = { maxUndecided: 10, maxOpenPerPayer: 10, funds };
  expect(begin(START_MS, paymentIntent(1), call, limits).kind).toBe("begun");
  expect(begin(START_MS, paymentIntent(2), call, limits).kind).toBe("begun");
  expect(begin(START_MS, paymentIntent(3), call, limits).kind).toBe("insufficient_funds");
  const fewer = { maxUndecided: 10, maxOpenPerPayer: 2 };
  expect(begin(START_MS, paymentIntent(3), call, fewer).kind).toBe("too_many_open_payments");
});
