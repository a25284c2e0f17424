import { expect, test } from "vitest";
import type { ChargeKind } from "../../../src/core/payment.ts";
import { toPaymentRow } from "../../../src/store/payment-row.ts";
import {
  type BeginFacts,
  beginDecision,
  freedNonces,
  holdsName,
  isBalanced,
} from "../../../src/store/rules/payments.ts";
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

test("A failed payment frees its nonces; if its job ran, those of the charge alone", () => {
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
