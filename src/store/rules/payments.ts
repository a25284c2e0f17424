import type { OneTimeNonce, PaymentIntent, PaymentRecord, PaymentState } from "../../core/payment.ts";
import { type BeginPaymentOutcome, type UndecidedLimits, YOUNG_MS } from "../contract/payment-journal.ts";
import { noncesOf, type SoldPayment } from "../payment-row.ts";
import type { RevenuePeriod, StoreTotals } from "../store.ts";
import { shortened } from "./call-steps.ts";
import { chargedState } from "./charges.ts";

/** SQL condition of {@link holdsName}, on the column `state`. */
export const HOLDS_NAME = "state NOT IN ('failed', 'released')";

/** Returns true if a payment holds its name, because it was charged or may still be charged. */
export function holdsName({ state }: Pick<PaymentRecord, "state">): boolean {
  return state !== "failed" && state !== "released";
}

/** Returns the one-time nonces that a failed payment frees: all, or if its job ran, only the nonces of the charge. */
export function freedNonces(payment: Pick<SoldPayment, "charge" | "one_time_nonces">): OneTimeNonce[] {
  const hasRun = payment.charge !== "before";
  return noncesOf(payment).filter(({ isOfCharge }) => !hasRun || isOfCharge === true);
}

/**
 * Returns true if the body of a watched payment is kept for its JobCall, which runs if the chain shows that the failed payment
 * was paid. A deferred payment's job ran.
 */
export function hasKeptBody({ state, ceiling }: Pick<SoldPayment, "state" | "ceiling">): boolean {
  return state === "failed" && ceiling === null;
}

/** Facts that decide whether a payment can begin. */
export interface BeginFacts {
  readonly intent: PaymentIntent;
  /** Payment with the intent's key or fingerprint, or else the payment that holds the intent's name. */
  readonly known: PaymentRecord | undefined;
  /** Returns true if a one-time nonce is used up and has not expired. */
  readonly isNonceUsed: (nonce: OneTimeNonce) => boolean;
  readonly hasRoom: boolean;
  /** Number of undecided payments that are no longer young, of all payers and of the intent's payer. */
  readonly undecided: { readonly total: number; readonly ofPayer: number };
  /**
   * Token units of the payer's authorized and unsettled payments in the intent's token, plus the units of the payer's
   * payments in the token that were settled since the funds were read.
   */
  readonly openUnits: bigint;
  readonly limits: UndecidedLimits | undefined;
  /** Reason why a module does not let the payment begin; undefined if it does. */
  readonly refusal: string | undefined;
  readonly now: number;
}

/** Decides whether a payment can begin. */
export function beginDecision(
  facts: BeginFacts,
): Exclude<BeginPaymentOutcome, { kind: "begun" }> | { readonly kind: "begin" } {
  const { intent, known, isNonceUsed, hasRoom, undecided, openUnits, limits, refusal, now } = facts;
  if (known !== undefined) return { kind: "payment_known", record: known };
  const used = intent.oneTimeNonces?.find(
    // A nonce that has expired since the request arrived may have been used and then deleted.
    (nonce) => isNonceUsed(nonce) || nonce.expiresAt * 1000 <= now,
  );
  if (used !== undefined) return { kind: "nonce_used", key: used.key };
  if (refusal !== undefined) return { kind: "not_taken", reason: refusal };
  if (limits !== undefined && undecided.total >= limits.maxUndecided) return { kind: "too_many_undecided" };
  if (limits !== undefined && undecided.ofPayer >= limits.maxOpenPerPayer)
    return { kind: "too_many_open_payments" };
  if (limits?.funds !== undefined && openUnits + BigInt(intent.amount) > BigInt(limits.funds))
    return { kind: "insufficient_funds" };
  return hasRoom ? { kind: "begin" } : { kind: "queue_full" };
}

/**
 * Checks an invariant of the journal. Each payment that is settled or charged after its job has exactly one JobCall, and the
 * money for each dead JobCall is kept, is accounted for by a part, or was never charged.
 */
export function isBalanced({
  payments,
  deferred,
  paidCalls,
  kept,
  uncharged,
  accounted,
}: Pick<StoreTotals, "payments" | "deferred" | "paidCalls" | "kept" | "uncharged" | "accounted">): boolean {
  const { ready, leased, done, dead } = paidCalls;
  const used = Object.values(deferred).reduce((sum, n) => sum + n, 0);
  const sold = payments.settled - deferred.settled + used;
  return sold === ready + leased + done + dead && dead === kept + uncharged + accounted;
}

export const HOUR_MS = 3_600_000;
/** Hour that is later than any payment and exact in milliseconds. */
const NO_HOUR = 2_000_000_000;

/**
 * Returns the first hour (Unix hours) of a revenue report for which the sums by hour are used. Payments outside these hours
 * are summed one by one: payments of the first, incomplete hour, or all payments if buckets are not whole hours.
 */
export function firstSummedHour({ since, bucketMs }: RevenuePeriod): number {
  return bucketMs % HOUR_MS === 0 ? Math.ceil(since / HOUR_MS) : NO_HOUR;
}

/** Event that decides a payment, with what the payment's row keeps of the event. */
export type PaymentEvent =
  /**
   * Money moved. `settleEarly`: it moved in a block that a fork may still replace. `amount` is undefined if the
   * payment's own amount moved.
   */
  | {
      readonly kind: "settle" | "settleEarly";
      readonly settlement: string;
      readonly blockNumber: string | undefined;
      readonly amount: string | undefined;
    }
  /** A final block now contains the money of a payment that settled early. */
  | { readonly kind: "finalize"; readonly blockNumber: string | undefined }
  /** No money moved. */
  | { readonly kind: "fail"; readonly settlement: string; readonly reason: string }
  /** jobgate cannot decide the payment. */
  | { readonly kind: "leaveUnresolved"; readonly reason: string }
  /** The operator decides. */
  | { readonly kind: "closeAsPaid" | "closeAsNotPaid"; readonly by: string; readonly note: string }
  /** The chain contradicts a decision. `settlement` is undefined if the row keeps its settlement. */
  | { readonly kind: "contradict"; readonly reason: string; readonly settlement: string | undefined }
  /** The job is done, and its charge is above 0. */
  | { readonly kind: "charge"; readonly amount: string }
  /** The payment ends without a charge. */
  | { readonly kind: "release"; readonly reason: string | undefined };

/** Further write that a decision makes in the same commit. */
export type PaymentEffect =
  /** The held JobCall becomes ready. */
  | "queueCall"
  /** The held JobCall leaves the queue. Its body is kept. */
  | "keepCall"
  /** The held JobCall leaves the queue, with its body. */
  | "dropCall"
  /** The JobCall that was kept becomes ready. */
  | "requeueCall"
  /** The one-time nonces can be used again. If the job ran, only the nonces of the charge can be used again. */
  | "freeNonce"
  /** The one-time nonces are used up again, unless another payment has used them since. */
  | "useNonce"
  /** The chain may still contradict the decision, so the payment is watched. */
  | "watch"
  /** A fork may still undo the transfer, so the payment is watched until the block is final. */
  | "watchUntilFinal"
  | "endWatch";

interface Transition {
  readonly to: PaymentState;
  /** `ended`: the payment's authorization has ended. `watched`: the payment is watched. */
  readonly if: "ended" | "watched" | undefined;
  readonly effects: readonly PaymentEffect[];
}

type Transitions = {
  readonly [State in PaymentState]?: { readonly [Kind in PaymentEvent["kind"]]?: Transition };
};

const to = (state: PaymentState, ...effects: PaymentEffect[]): Transition => ({
  ...{ to: state, if: undefined, effects },
});
const ifEnded = (state: PaymentState, ...effects: PaymentEffect[]): Transition => ({
  ...{ to: state, if: "ended", effects },
});
const ifWatched = (state: PaymentState, ...effects: PaymentEffect[]): Transition => ({
  ...{ to: state, if: "watched", effects },
});

/**
 * All transitions of a payment, by state and event. An event that a state does not list changes nothing.
 * `docs/payment-states.md` shows these tables.
 */
export const PAYMENT_TRANSITIONS = {
  /** Payments that are charged `before`: the JobCall is held until they are settled. */
  before: {
    intent: {
      settle: to("settled", "queueCall"),
      settleEarly: to("settled", "queueCall", "watchUntilFinal"),
      fail: to("failed", "keepCall", "freeNonce", "watch"),
      leaveUnresolved: to("unresolved"),
      closeAsPaid: ifEnded("settled", "queueCall", "watch"),
      closeAsNotPaid: ifEnded("failed", "keepCall", "freeNonce", "watch"),
    },
    unresolved: {
      settle: to("settled", "queueCall"),
      settleEarly: to("settled", "queueCall", "watchUntilFinal"),
      fail: to("failed", "keepCall", "freeNonce", "watch"),
      closeAsPaid: to("settled", "queueCall", "watch"),
      closeAsNotPaid: to("failed", "keepCall", "freeNonce", "watch"),
    },
    failed: {
      settle: ifWatched("settled", "endWatch", "requeueCall", "useNonce"),
      settleEarly: ifWatched("settled", "endWatch", "requeueCall", "useNonce", "watchUntilFinal"),
      closeAsPaid: ifWatched("settled", "endWatch", "requeueCall", "useNonce", "watch"),
    },
    settled: { finalize: ifWatched("settled", "endWatch"), contradict: ifWatched("settled", "endWatch") },
  },
  /**
   * Payments that are charged later: the job runs first. A failed payment stays failed, because the money that its
   * authorization moved may have paid for something else. A facilitator, or another gateway to which the payer showed the
   * authorization, may charge a payment that was released.
   */
  after: {
    authorized: { charge: to("settling"), release: to("released", "watch") },
    settling: {
      settle: to("settled"),
      settleEarly: to("settled", "watchUntilFinal"),
      fail: to("failed", "freeNonce", "watch"),
      leaveUnresolved: to("unresolved"),
      closeAsPaid: ifEnded("settled", "watch"),
      closeAsNotPaid: ifEnded("failed", "freeNonce", "watch"),
    },
    unresolved: {
      settle: to("settled"),
      settleEarly: to("settled", "watchUntilFinal"),
      fail: to("failed", "freeNonce", "watch"),
      closeAsPaid: to("settled", "watch"),
      closeAsNotPaid: to("failed", "freeNonce", "watch"),
    },
    settled: { finalize: ifWatched("settled", "endWatch"), contradict: ifWatched("settled", "endWatch") },
    failed: { contradict: ifWatched("failed", "endWatch") },
    released: { contradict: ifWatched("released", "endWatch") },
  },
} as const satisfies Record<string, Transitions>;

/** Rows that, in addition to the payment, affect a decision. */
export interface PaymentFacts {
  isWatched(payment: SoldPayment): boolean;
  /** Returns true if another payment holds the name of a payment that failed. */
  isNameTaken(payment: SoldPayment): boolean;
}

/** Payment after a decision, and the further writes. */
interface Decision<Payment extends SoldPayment> {
  readonly payment: Payment;
  readonly effects: readonly PaymentEffect[];
}

/** Applies an event to a payment. @returns undefined if the event changes nothing */
export function decidePayment<Payment extends SoldPayment>(
  payment: Payment,
  event: PaymentEvent,
  facts: PaymentFacts,
  now: number,
): Decision<Payment> | undefined {
  const transitions: Transitions = PAYMENT_TRANSITIONS[payment.charge === "before" ? "before" : "after"];
  const transition = transitions[payment.state]?.[event.kind];
  if (transition === undefined) return undefined;
  if (transition.if === "ended" && !hasEnded(payment, now)) return undefined;
  if (transition.if === "watched" && !facts.isWatched(payment)) return undefined;
  const { to: state, effects } = transition;
  const isSettledLate = payment.state === "failed" && state === "settled";
  const decided = {
    ...{ ...payment, ...valuesOf(payment, event, now), state },
    // Another payment may have been made under the name in the meantime.
    purchase_name: isSettledLate && facts.isNameTaken(payment) ? null : payment.purchase_name,
    updated_at: event.kind === "contradict" || event.kind === "finalize" ? payment.updated_at : now,
  };
  return { payment: decided, effects };
}

function hasEnded({ created_at, valid_before_secs }: SoldPayment, now: number): boolean {
  return now - created_at >= YOUNG_MS && now >= valid_before_secs * 1000;
}

/** Longest reason of a released payment. Runners write the reasons of dead letters. */
const MAX_REASON_LENGTH = 500;

/** Columns that an event sets in a payment. */
function valuesOf(payment: SoldPayment, event: PaymentEvent, now: number): Partial<SoldPayment> {
  switch (event.kind) {
    case "settle":
    case "settleEarly": {
      const { settlement, blockNumber: block_number = null, amount = payment.amount } = event;
      const reason = payment.state === "failed" ? `recorded as failed before: ${payment.reason}` : null;
      return { settlement, block_number, amount, reason };
    }
    case "finalize":
      return { block_number: event.blockNumber ?? payment.block_number };
    case "fail":
      return { settlement: event.settlement, reason: event.reason };
    case "leaveUnresolved":
      return { reason: event.reason };
    case "closeAsPaid":
    case "closeAsNotPaid": {
      const isPaid = event.kind === "closeAsPaid";
      const closing = { as: isPaid ? "paid" : "not_paid", by: event.by, note: event.note, at: now };
      return { settlement: closedSettlement(payment, isPaid), closed: JSON.stringify(closing) };
    }
    case "contradict":
      return { reason: event.reason, settlement: event.settlement ?? payment.settlement };
    case "charge":
      return { amount: event.amount };
    case "release":
      return {
        amount: "0",
        reason: event.reason === undefined ? payment.reason : shortened(event.reason, MAX_REASON_LENGTH),
      };
  }
}

/** JSON of the settlement response that the client of a closed payment gets. */
function closedSettlement({ payer, network }: SoldPayment, isPaid: boolean): string {
  const common = { payer, transaction: "", network };
  const errorMessage = "The operator found that it was not paid.";
  return JSON.stringify(
    isPaid
      ? { success: true, ...common }
      : { success: false, errorReason: "settlement_failed", errorMessage, ...common },
  );
}

/** Returns the event of a charge that comes after the job. */
export function chargeEvent(amount: string): PaymentEvent {
  return chargedState(amount) === "released"
    ? { kind: "release", reason: undefined }
    : { kind: "charge", amount };
}
