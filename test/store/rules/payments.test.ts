import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { ChargeKind, PaymentState } from "../../../src/core/payment.ts";
import { YOUNG_MS } from "../../../src/store/contract/payment-journal.ts";
import { type PaymentRow, toPaymentRow } from "../../../src/store/payment-row.ts";
import {
  type BeginFacts,
  beginDecision,
  decidePayment,
  freedNonces,
  hasKeptBody,
  holdsName,
  isBalanced,
  type PaymentEvent,
} from "../../../src/store/rules/payments.ts";
import { printDiagram, printTable, tableOf } from "../machine/payment-tables.ts";
import { oneTimeNonce, paymentIntent, START_MS } from "../store-fixtures.ts";

const intent = paymentIntent(1, { oneTimeNonces: [oneTimeNonce("n")] });
const facts: BeginFacts = {
  intent,
  known: undefined,
  isNonceUsed: () => false,
  hasRoom: true,
  undecided: { total: 2, ofPayer: 1 },
  openUnits: 0n,
  limits: { maxUndecided: 3, maxOpenPerPayer: 2 },
  refusal: undefined,
  now: START_MS,
};

test("A new payment begins, unless one of its nonces is used, the first of which is reported", () => {
  expect(beginDecision(facts)).toEqual({ kind: "begin" });
  const both = paymentIntent(1, { oneTimeNonces: [oneTimeNonce("n"), oneTimeNonce("m")] });
  const decide = (...used: string[]) =>
    beginDecision({ ...facts, intent: both, isNonceUsed: ({ key }) => used.includes(key) });
  expect(decide("other")).toEqual({ kind: "begin" });
  expect(decide("m")).toEqual({ kind: "nonce_used", key: "m" });
  expect(decide("m", "n")).toEqual({ kind: "nonce_used", key: "n" });
});

test("A failed payment frees its nonces; if its job ran, only the nonces of the charge", () => {
  const nonces = [oneTimeNonce("caller"), { ...oneTimeNonce("price"), isOfCharge: true as const }];
  const freed = (charge: ChargeKind) =>
    freedNonces(toPaymentRow(paymentIntent(1, { oneTimeNonces: nonces, charge }), 1, START_MS));
  expect(freed("before")).toEqual(nonces);
  for (const charge of ["after", "used"] as const) expect(freed(charge)).toEqual(nonces.slice(1));
  expect(freedNonces(toPaymentRow(paymentIntent(1), 1, START_MS))).toEqual([]);
});

test("A payment holds its name unless it certainly charged nothing", () => {
  const states = ["intent", "authorized", "settling", "settled", "unresolved", "failed", "released"] as const;
  expect(states.filter((state) => !holdsName({ state }))).toEqual(["failed", "released"]);
});

test("Only a failed payment whose job never ran keeps its body", () => {
  expect(hasKeptBody({ state: "failed", ceiling: null })).toBe(true);
  expect(hasKeptBody({ state: "failed", ceiling: "1001" })).toBe(false);
  expect(hasKeptBody({ state: "settled", ceiling: null })).toBe(false);
});

test("A known payment is reported before anything else", () => {
  const known = {
    ...intent,
    ceiling: undefined,
    state: "intent" as const,
    callId: 1,
    createdAt: 0,
    updatedAt: 0,
  };
  const decision = beginDecision({ ...facts, known, isNonceUsed: () => true, hasRoom: false });
  expect(decision).toEqual({ kind: "payment_known", record: known });
});

test("A nonce is refused when it is used, and from its expiry on", () => {
  const expiryMs = oneTimeNonce("n").expiresAt * 1000;
  expect(beginDecision({ ...facts, isNonceUsed: () => true }).kind).toBe("nonce_used");
  expect(beginDecision({ ...facts, now: expiryMs - 1 }).kind).toBe("begin");
  expect(beginDecision({ ...facts, now: expiryMs }).kind).toBe("nonce_used");
  expect(beginDecision({ ...facts, intent: paymentIntent(1), now: expiryMs }).kind).toBe("begin");
});

test("A full queue refuses only payments that could begin otherwise", () => {
  expect(beginDecision({ ...facts, hasRoom: false }).kind).toBe("queue_full");
  expect(beginDecision({ ...facts, hasRoom: false, isNonceUsed: () => true }).kind).toBe("nonce_used");
});

test("Too many undecided payments, of everyone or of the payer, refuse the next one", () => {
  const kindFor = (undecided: BeginFacts["undecided"], hasRoom = true) =>
    beginDecision({ ...facts, undecided, hasRoom }).kind;
  expect(kindFor({ total: 3, ofPayer: 2 })).toBe("too_many_undecided");
  expect(kindFor({ total: 2, ofPayer: 2 }, false)).toBe("too_many_open_payments");
  expect(beginDecision({ ...facts, undecided: { total: 3, ofPayer: 2 }, limits: undefined }).kind).toBe(
    "begin",
  );
});

test("A payment begins only if the payer's funds cover it beside the open deferred payments", () => {
  const kindFor = (openUnits: bigint, funds?: string) => {
    const limits = { maxUndecided: 3, maxOpenPerPayer: 2, ...(funds === undefined ? {} : { funds }) };
    return beginDecision({ ...facts, intent: { ...intent, amount: "10" }, openUnits, limits }).kind;
  };
  expect(kindFor(5n, "15")).toBe("begin");
  expect(kindFor(6n, "15")).toBe("insufficient_funds");
  expect(kindFor(6n)).toBe("begin");
});

test("The journal balances while each settled payment has one JobCall, and each dead one is kept or accounted for", () => {
  const none = { authorized: 0, settling: 0, settled: 0, released: 0, failed: 0, unresolved: 0 };
  const payments = { ...none, intent: 5, settled: 4, failed: 3, unresolved: 2 };
  const paidCalls = { ready: 1, leased: 1, done: 1, dead: 1 };
  const totals = {
    payments,
    deferred: none,
    paidCalls,
    kept: 1,
    uncharged: 0,
    accounted: 0,
  };
  expect(isBalanced(totals)).toBe(true);
  expect(isBalanced({ ...totals, paidCalls: { ...paidCalls, done: 2 } })).toBe(false);
  expect(isBalanced({ ...totals, payments: { ...payments, settled: 5 } })).toBe(false);
  expect(isBalanced({ ...totals, kept: 0 })).toBe(false);
  expect(isBalanced({ ...totals, kept: 0, uncharged: 1 })).toBe(true);
  const deferred = { authorized: 1, settling: 2, settled: 1, released: 1, failed: 1, unresolved: 1 };
  expect(isBalanced({ ...totals, deferred })).toBe(false);
  expect(isBalanced({ ...totals, deferred, paidCalls: { ...paidCalls, done: 7 } })).toBe(true);
  expect(isBalanced({ ...totals, kept: 0, accounted: 1 })).toBe(true);
  expect(isBalanced({ ...totals, accounted: 1 })).toBe(false);
});

const DOC = readFileSync(new URL("../../../docs/payment-states.md", import.meta.url), "utf8");

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
