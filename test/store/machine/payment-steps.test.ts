import { expect, test } from "vitest";
import type { PaymentIntent } from "../../../src/core/payment.ts";
import { toNewCall } from "../../../src/store/create-store.ts";
import type { Change } from "../../../src/store/machine/changes.ts";
import { type BeginRows, beginStep, paymentSteps } from "../../../src/store/machine/payment-steps.ts";
import type { BeginGate } from "../../../src/store/module.ts";
import { Capacity } from "../../../src/store/new-call.ts";
import { type PaymentRow, toPaymentRow } from "../../../src/store/payment-row.ts";
import type { Rows } from "../../../src/store/rows.ts";
import { oneTimeNonce, paidCall, paymentIntent, START_MS } from "../store-fixtures.ts";
import { MemoryEffects } from "./memory-effects.ts";

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

  add(intent: PaymentIntent, _call: typeof call, now: number): PaymentRow {
    const row = toPaymentRow(intent, this.added.length + 1, now);
    this.added.push(row);
    return row;
  }

  useNonce({ key }: { readonly key: string }): void {
    this.used.push(key);
  }
}

/** Changes of a commit without rows of modules. */
class NotedChanges {
  readonly rows = { find: () => undefined } as unknown as Rows;
  readonly noted: Change[] = [];

  note(change: Change): void {
    this.noted.push(change);
  }
}

test("A payment that begins takes a place in the queue and uses up its one-time nonce", () => {
  const rows = new MemoryBeginRows();
  const capacity = new Capacity(0, 10);
  const begin = beginStep(rows, capacity, new NotedChanges());
  const intent = paymentIntent(1, { oneTimeNonces: [oneTimeNonce("n")] });
  expect(begin(START_MS, intent, call)).toEqual({ kind: "begun", callId: 1 });
  expect(capacity.pending).toBe(1);
  expect(rows.used).toEqual(["n"]);
});

test("A payment that is refused takes no place and uses up nothing", () => {
  const rows = new MemoryBeginRows();
  const capacity = new Capacity(0, 1);
  const begin = beginStep(rows, capacity, new NotedChanges());
  expect(begin(START_MS, paymentIntent(1), call).kind).toBe("begun");
  const second = paymentIntent(2, { oneTimeNonces: [oneTimeNonce("n")] });
  expect(begin(START_MS, paymentIntent(1), call).kind).toBe("payment_known");
  expect(begin(START_MS, second, call)).toEqual({ kind: "queue_full" });
  expect(capacity.pending).toBe(1);
  expect(rows.added).toHaveLength(1);
  expect(rows.used).toEqual([]);
});

test("The limits of a payer count what began before in the same commit", () => {
  const begin = beginStep(new MemoryBeginRows(), new Capacity(0, 10), new NotedChanges());
  const { amount } = paymentIntent(1);
  const funds = String(BigInt(amount) * 3n - 1n);
  const limits = { maxUndecided: 10, maxOpenPerPayer: 10, funds };
  expect(begin(START_MS, paymentIntent(1), call, limits).kind).toBe("begun");
  expect(begin(START_MS, paymentIntent(2), call, limits).kind).toBe("begun");
  expect(begin(START_MS, paymentIntent(3), call, limits).kind).toBe("insufficient_funds");
  const fewer = { maxUndecided: 10, maxOpenPerPayer: 2 };
  expect(begin(START_MS, paymentIntent(3), call, fewer).kind).toBe("too_many_open_payments");
});

test("A payment begins only if the module of its transfer method allows it, and the module hears of it", () => {
  const rows = new MemoryBeginRows();
  const changes = new NotedChanges();
  let refusal: string | undefined = "it comes too late";
  const gate: BeginGate = {
    transferMethod: "eip3009",
    keys: () => [],
    refusal: () => refusal,
    givesBack: () => false,
  };
  const begin = beginStep(rows, new Capacity(0, 10), changes, ({ transferMethod }) =>
    transferMethod === gate.transferMethod ? gate : undefined,
  );
  const nonce = oneTimeNonce("n");
  const intent = paymentIntent(1, { oneTimeNonces: [nonce] });
  expect(begin(START_MS, intent, call)).toEqual({ kind: "not_taken", reason: "it comes too late" });
  expect([rows.added, rows.used, changes.noted]).toEqual([[], [], []]);
  refusal = undefined;
  expect(begin(START_MS, paymentIntent(2, { transferMethod: "permit2" }), call).kind).toBe("begun");
  expect(changes.noted).toEqual([]);
  expect(begin(START_MS, intent, call)).toEqual({ kind: "begun", callId: 2 });
  expect(changes.noted).toMatchObject([
    { kind: "paymentBegun", intent, payment: { call_id: 2 }, at: START_MS },
  ]);
  refusal = "it comes too late";
  expect(begin(START_MS, intent, call).kind).toBe("payment_known");
});

test("A payment is confirmed in the state that it has, and in no other", () => {
  const { key } = paymentIntent(1);
  const rows = [toPaymentRow(paymentIntent(1), 1, START_MS)];
  const { confirmPayment } = paymentSteps(
    ({ nonce }) => rows.find((row) => row.nonce === nonce),
    new MemoryEffects(),
  );
  expect(confirmPayment(START_MS, key, "intent")).toBe(true);
  expect(confirmPayment(START_MS, key, "settled")).toBe(false);
  expect(confirmPayment(START_MS, paymentIntent(2).key, "intent")).toBe(false);
});
