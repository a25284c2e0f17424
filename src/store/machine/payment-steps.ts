import type { OneTimeNonce, PaymentIntent, PaymentKey } from "../../core/payment.ts";
import type { UndecidedLimits } from "../contract/payment-journal.ts";
import { gateOf } from "../modules/modules.ts";
import type { Capacity, NewCall } from "../new-call.ts";
import type { Input, Outcome } from "../operations.ts";
import { type PaymentRow, toPaymentRecord } from "../payment-row.ts";
import { type BeginFacts, beginDecision } from "../rules/payments.ts";
import type { Effects } from "./effects.ts";

/** Operations that decide a payment. */
export const PAYMENT_STEPS = [
  "settlePayment",
  "finalizePayment",
  "failPayment",
  "leavePaymentUnresolved",
  "confirmPayment",
  "closePayment",
  "contradictPayment",
] as const;
export type PaymentStep = (typeof PAYMENT_STEPS)[number];

type Steps = {
  readonly [Name in PaymentStep]: (now: number, ...input: Input<Name>) => Outcome<Name>;
};

/** Returns {@link PAYMENT_STEPS}. @param find finds the payment, including the commit's changes so far */
export function paymentSteps(find: (key: PaymentKey) => PaymentRow | undefined, effects: Effects): Steps {
  return {
    settlePayment(now, key, settlement, blockNumber, amount, isEarly) {
      const row = find(key);
      if (row === undefined) return { kind: "not_open" };
      const callId = row.call_id;
      if (row.state === "settled")
        return { kind: "settled", callId, changed: false, record: toPaymentRecord(row) };
      const kind = isEarly === true ? "settleEarly" : "settle";
      const settled = effects.decide(row, { kind, settlement, blockNumber, amount }, now);
      if (settled === undefined) return { kind: "not_open" };
      return { kind: "settled", callId, changed: true, record: toPaymentRecord(settled) };
    },

    finalizePayment: (now, key, blockNumber) =>
      effects.decide(find(key), { kind: "finalize", blockNumber }, now) !== undefined,

    failPayment(now, key, settlement, reason) {
      const failed = effects.decide(find(key), { kind: "fail", settlement, reason }, now);
      return failed === undefined
        ? { kind: "not_open" }
        : { kind: "failed", record: toPaymentRecord(failed) };
    },

    leavePaymentUnresolved(now, key, reason) {
      const left = effects.decide(find(key), { kind: "leaveUnresolved", reason }, now);
      return left && toPaymentRecord(left);
    },

    confirmPayment: (_now, key, state) => find(key)?.state === state,

    closePayment(now, key, { as, by, note }) {
      const row = find(key);
      const kind = as === "paid" ? "closeAsPaid" : "closeAsNotPaid";
      const closed = effects.decide(row, { kind, by, note }, now);
      return closed === undefined
        ? { kind: "not_open", record: row && toPaymentRecord(row) }
        : { kind: "closed", record: toPaymentRecord(closed) };
    },

    contradictPayment: (now, key, reason, settlement) =>
      effects.decide(find(key), { kind: "contradict", reason, settlement }, now) !== undefined,
  };
}

/** Rows that the beginning of a payment reads and writes, including the commit's changes so far. */
export interface BeginRows {
  /** Finds the payment that an intent repeats: the same payment, or the payment that holds its name. */
  findRepeated(intent: PaymentIntent): PaymentRow | undefined;
  isNonceUsed(nonce: OneTimeNonce, now: number): boolean;
  /** Counts undecided payments, up to the limits. */
  undecided(payer: string, now: number, limits: UndecidedLimits): BeginFacts["undecided"];
  /** Sums {@link BeginFacts.openUnits}. @param since time of the payer's funds */
  openUnits(key: PaymentKey, since: number): bigint;
  /** Adds a payment with its JobCall. */
  add(intent: PaymentIntent, call: NewCall, now: number): PaymentRow;
  useNonce(nonce: OneTimeNonce, callId: number, now: number): void;
}

/** Returns the operation that begins a payment, if there is room and no limit is reached. */
export function beginStep(
  rows: BeginRows,
  capacity: Capacity,
  effects: Pick<Effects, "rows" | "note">,
  findGate = gateOf,
): (now: number, ...input: Input<"beginPayment">) => Outcome<"beginPayment"> {
  return (now, intent, call, limits) => {
    const { key, oneTimeNonces = [] } = intent;
    const known = rows.findRepeated(intent);
    const gate = findGate(intent);
    const decision = beginDecision({
      intent,
      known: known && toPaymentRecord(known),
      isNonceUsed: (nonce) => rows.isNonceUsed(nonce, now),
      hasRoom: capacity.hasRoom(),
      undecided: limits === undefined ? NONE : rows.undecided(key.payer, now, limits),
      openUnits: limits?.funds === undefined ? 0n : rows.openUnits(key, now - (limits.fundsAgeMs ?? 0)),
      limits,
      refusal: gate?.refusal(intent, effects.rows, now),
      now,
    });
    if (decision.kind !== "begin") return decision;
    capacity.adjust(1);
    const payment = rows.add(intent, call, now);
    const callId = payment.call_id;
    for (const nonce of oneTimeNonces) rows.useNonce(nonce, callId, now);
    if (gate !== undefined) effects.note({ kind: "paymentBegun", payment, intent, at: now });
    if (intent.settlement !== undefined) effects.note({ kind: "paymentDecided", payment, from: undefined });
    return { kind: "begun", callId };
  };
}

const NONE: BeginFacts["undecided"] = { total: 0, ofPayer: 0 };
