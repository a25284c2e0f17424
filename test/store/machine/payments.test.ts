import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { ChargeKind, PaymentState } from "../../../src/core/payment.ts";
import { YOUNG_MS } from "../../../src/store/contract/payment-journal.ts";
import { decidePayment, type PaymentEvent } from "../../../src/store/machine/payments.ts";
import { type PaymentRow, toPaymentRow } from "../../../src/store/payment-row.ts";
import { paymentIntent, START_MS } from "../store-fixtures.ts";
import { printDiagram, printTable, tableOf } from "./payment-tables.ts";

const DOC = readFileSync(new URL("../../../docs/job-states.md", import.meta.url), "utf8");

const UNSETTLED = { settlement: '{"success":false}', reason: "reverted" };
const EVENTS: readonly PaymentEvent[] = [
  { kind: "settle", settlement: '{"success":true}', blockNumber: "12", amount: undefined },
  { kind: "fail", ...UNSETTLED },
  { kind: "leaveUnresolved", reason: "no answer" },
  { kind: "closeAsPaid", by: "ada", note: "block 12" },
  { kind: "closeAsNotPaid", by: "ada", note: "looked it up" },
  { kind: "contradict", reason: "it paid 7", settlement: undefined },
  { kind: "charge", amount: "400" },
  { kind: "release", reason: "no ink" },
];
const STATES: readonly PaymentState[] = [
  ...(["intent", "settled", "failed", "unresolved", "authorized", "settling", "released"] as const),
];
const NOTHING = { isWatched: () => false, isNameTaken: () => false };
const WATCHED = { isWatched: () => true, isNameTaken: () => false };
const LATE = paymentIntent(1).validBefore * 1000;

const CONTRADICT = EVENTS[5] as PaymentEvent;

function payment(state: PaymentState, charge: ChargeKind, more: Partial<PaymentRow> = {}): PaymentRow {
  const intent = paymentIntent(1, { purchaseName: "order 1", charge });
  return { ...toPaymentRow(intent, 1, START_MS), state, reason: "reverted", ...more };
}

describe("A payment's states", () => {
  test.each(["before", "after"] as const)("are documented as they are decided: %s", (kind) => {
    expect(DOC).toContain(printDiagram(kind));
    expect(DOC).toContain(printTable(kind));
  });

  test.each(["before", "after"] as const)("are decided by the table alone, for each event: %s", (kind) => {
    for (const state of STATES) {
      for (const event of EVENTS) {
        const row = tableOf(kind).find(({ from, event: name }) => from === state && name === event.kind);
        const decision = decidePayment(payment(state, kind), event, WATCHED, LATE);
        expect(decision?.payment.state, `${state}, ${event.kind}`).toBe(row?.to);
        expect(decision?.effects).toEqual(row?.effects);
      }
    }
  });
});

describe("A payment that is charged before its job runs", () => {
  const intent = payment("intent", "before");
  const [settle, fail] = EVENTS as readonly [PaymentEvent, PaymentEvent];

  test("is never settled twice, and never fails once it is settled", () => {
    for (const event of EVENTS)
      expect(decidePayment(payment("settled", "before"), event, NOTHING, LATE)).toBeUndefined();
    expect(decidePayment(intent, settle, NOTHING, START_MS)?.effects).toEqual(["queueCall"]);
  });

  test("has its JobCall in the queue exactly while it is settled", () => {
    for (const { from, to, effects } of tableOf("before")) {
      const isQueued = effects.includes("queueCall") || effects.includes("requeueCall");
      expect(isQueued, `${from} to ${to}`).toBe(to === "settled" && from !== "settled");
      expect(effects.includes("keepCall"), `${from} to ${to}`).toBe(to === "failed" && from !== "failed");
    }
  });

  test("is settled after it failed only while its JobCall is kept, without what others have taken since", () => {
    const failed = payment("failed", "before");
    expect(decidePayment(failed, settle, NOTHING, LATE)).toBeUndefined();
    const settled = decidePayment(failed, settle, WATCHED, LATE)?.payment;
    expect(settled).toMatchObject({ purchase_name: "order 1", block_number: "12" });
    expect(settled?.reason).toBe("recorded as failed before: reverted");
    const taken = { isWatched: () => true, isNameTaken: () => true };
    expect(decidePayment(failed, settle, taken, LATE)?.payment.purchase_name).toBeNull();
  });

  test("can be closed once it is a minute old and its authorization has ended", () => {
    const [, , , close] = EVENTS as readonly PaymentEvent[];
    const decided = (at: number, row = intent) => decidePayment(row, close as PaymentEvent, NOTHING, at);
    expect(decided(LATE - 1)).toBeUndefined();
    const lateIntent = payment("intent", "before", { created_at: LATE - YOUNG_MS + 1 });
    expect(decided(LATE, lateIntent)).toBeUndefined();
    expect(decided(LATE + 1, lateIntent)?.payment).toMatchObject({
      state: "settled",
      settlement: `{"success":true,"payer":"${intent.payer}","transaction":"","network":"${intent.network}"}`,
      closed: `{"as":"paid","by":"ada","note":"block 12","at":${LATE + 1}}`,
    });
  });

  test("keeps its name when it fails, and is settled instead of contradicted", () => {
    const failed = decidePayment(intent, fail, NOTHING, LATE)?.payment;
    expect(failed).toMatchObject({ ...UNSETTLED, purchase_name: "order 1", updated_at: LATE });
    expect(decidePayment(failed as PaymentRow, CONTRADICT, WATCHED, LATE + 5)).toBeUndefined();
  });
});

test("A contradiction keeps the time and the settlement of a payment", () => {
  const before = payment("failed", "used", { ...UNSETTLED, updated_at: LATE });
  const contradicted = decidePayment(before, CONTRADICT, WATCHED, LATE + 5)?.payment;
  expect(contradicted).toMatchObject({ state: "failed", reason: "it paid 7", updated_at: LATE });
  expect(contradicted?.settlement).toBe(UNSETTLED.settlement);
});
