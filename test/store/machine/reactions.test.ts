import { describe, expect, test } from "vitest";
import type { ChargeKind, PaymentState } from "../../../src/core/payment.ts";
import type { EndedCall } from "../../../src/store/machine/announcements.ts";
import { type PaymentRow, toPaymentRow } from "../../../src/store/payment-row.ts";
import { paymentIntent, START_MS } from "../store-fixtures.ts";
import { MemoryEffects } from "./memory-effects.ts";

const NOW = START_MS + 1_000;
const CALL: EndedCall = {
  call_id: 1,
  origin: "x402",
  job_id: "7",
  service_id: "9",
  attempts: 1,
  order_key: null,
};
const REFUNDED = {
  amount: "1001",
  onFailure: "refund",
  notes: { "Callback-URL": "https://buyer.test/x" },
} as const;

/** Effects beside one payment of call 1. */
function beside(state: PaymentState, charge: ChargeKind = "used"): MemoryEffects {
  const effects = new MemoryEffects();
  const row = { ...toPaymentRow(paymentIntent(1, { ...REFUNDED, charge }), CALL.call_id, START_MS), state };
  effects.paymentRows.rows.set(CALL.call_id, row);
  return effects;
}

const stateIn = (effects: MemoryEffects) => {
  const { state, amount, reason } = effects.payment(CALL.call_id) as PaymentRow;
  return { state, amount, reason };
};

describe("a deferred payment", () => {
  test("is charged what its runner names, once its job ran", () => {
    const effects = beside("authorized");
    effects.finish(CALL, "400", NOW);
    expect(stateIn(effects)).toEqual({ state: "settling", amount: "400", reason: null });
    expect(effects.paymentRows.watched.size).toBe(0);
  });

  test("is released and watched if its runner charges nothing", () => {
    const effects = beside("authorized");
    effects.finish(CALL, "0", NOW);
    expect(stateIn(effects)).toMatchObject({ state: "released", amount: "0" });
    expect([...effects.paymentRows.watched]).toEqual([[CALL.call_id, NOW]]);
  });

  test("is released and watched if its job fails, with the job's reason", () => {
    const effects = beside("authorized");
    effects.note({ kind: "deadLettered", call: CALL, reason: "no ink".padEnd(600, "."), at: NOW });
    const reason = "no ink".padEnd(500, ".");
    expect(stateIn(effects)).toEqual({ state: "released", amount: "0", reason });
    expect([...effects.paymentRows.watched]).toEqual([[CALL.call_id, NOW]]);
  });

  test.each(["settling", "settled", "failed", "unresolved", "released"] as const)(
    "stays as it is if its job ends when it is %s",
    (state) => {
      const effects = beside(state);
      const before = stateIn(effects);
      effects.finish(CALL, "400", NOW);
      effects.note({ kind: "deadLettered", call: CALL, reason: "no ink", at: NOW });
      expect(stateIn(effects)).toEqual(before);
    },
  );
});
