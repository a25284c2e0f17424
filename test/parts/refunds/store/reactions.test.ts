import { describe, expect, test } from "vitest";
import { REFUNDS_TABLE, refundOf } from "../../../../src/parts/refunds/store/module.ts";
import { type PaymentRow, toPaymentRow } from "../../../../src/store/payment-row.ts";
import { MemoryEffects } from "../../../store/machine/memory-effects.ts";
import { paymentIntent, START_MS } from "../../../store/store-fixtures.ts";

const NOW = START_MS + 1_000;
const CALL = {
  call_id: 1,
  origin: "x402",
  job_id: "7",
  service_id: "9",
  attempts: 1,
  order_key: null,
} as const;

function besidePayment(of: Partial<PaymentRow> = {}): MemoryEffects {
  const effects = new MemoryEffects();
  const intent = paymentIntent(1, { amount: "1001", onFailure: "refund" });
  const row = { ...toPaymentRow(intent, CALL.call_id, START_MS), state: "settled", ...of } as const;
  effects.paymentRows.rows.set(CALL.call_id, row);
  return effects;
}

describe("a refund", () => {
  const dead = { kind: "deadLettered", call: CALL, reason: "no ink", at: NOW } as const;

  test("is owed for a dead letter, and no longer once the dead letter is retried", () => {
    const effects = besidePayment();
    effects.note(dead);
    expect(refundOf(CALL.call_id, effects.rows)).toMatchObject({
      state: "owed",
      is_approved: 1,
      amount: "1001",
    });
    effects.note({ kind: "revived", callId: CALL.call_id });
    expect(refundOf(CALL.call_id, effects.rows)).toMatchObject({ state: "cancelled" });
    effects.note(dead);
    expect(refundOf(CALL.call_id, effects.rows)).toMatchObject({ state: "owed", attempt: 1 });
  });

  test("has another attempt if a transaction of the refund before may be known", () => {
    const effects = besidePayment();
    effects.note(dead);
    const owed = refundOf(CALL.call_id, effects.rows);
    if (owed !== undefined)
      effects.rows.put(REFUNDS_TABLE, { ...owed, state: "cancelled", reference: "0x1" });
    effects.note(dead);
    expect(refundOf(CALL.call_id, effects.rows)).toMatchObject({
      state: "owed",
      attempt: 2,
      reference: null,
    });
  });

  test("is not owed for a failed job that is charged after it ran", () => {
    const effects = besidePayment({ charge: "after" });
    effects.note(dead);
    expect(refundOf(CALL.call_id, effects.rows)).toBeUndefined();
  });

  test.each([
    { onFailure: "keep", isApproved: 1 },
    { onFailure: "ask", isApproved: 0 },
  ] as const)(
    "is owed of what the authorization of a released payment moved, on_failure $onFailure",
    ({ onFailure, isApproved }) => {
      const settlement = { success: false, errorMessage: "moved", transaction: "0x1", amount: "7" };
      const contradicted = (row: Partial<PaymentRow>) => {
        const settled = {
          charge: "used",
          on_failure: onFailure,
          settlement: JSON.stringify(settlement),
        } as const;
        const effects = besidePayment({ ...settled, amount: "0", ...row });
        const payment = effects.payment(CALL.call_id);
        if (payment !== undefined) effects.note({ kind: "paymentContradicted", payment, at: NOW });
        return refundOf(CALL.call_id, effects.rows);
      };
      expect(contradicted({ state: "released" })).toMatchObject({
        ...{ state: "owed", is_approved: isApproved, amount: "7" },
      });
      expect(contradicted({ state: "failed" })).toBeUndefined();
      expect(contradicted({ state: "settled", settlement: null })).toBeUndefined();
    },
  );
});
