import type { OneTimeNonce, PaymentIntent, PaymentRecord } from "../../core/payment.ts";
import type { BeginPaymentOutcome, UndecidedLimits } from "../contract/payment-journal.ts";
import { noncesOf, type SoldPayment } from "../payment-row.ts";
import type { RevenuePeriod, StoreTotals } from "../store.ts";

/** SQL condition of {@link holdsName}, on the column `state`. */
export const HOLDS_NAME = "state NOT IN ('failed', 'released')";

/** Returns true if a payment holds its name: it was charged, or may still be charged. */
export function holdsName({ state }: Pick<PaymentRecord, "state">): boolean {
  return state !== "failed" && state !== "released";
}

/** Returns the one-time nonces that a failed payment frees: if its job ran, those of the charge alone. */
export function freedNonces(payment: Pick<SoldPayment, "charge" | "one_time_nonces">): OneTimeNonce[] {
  const hasRun = payment.charge !== "before";
  return noncesOf(payment).filter(({ isOfCharge }) => !hasRun || isOfCharge === true);
}

/** Facts that decide whether a payment can begin. */
export interface BeginFacts {
  readonly intent: PaymentIntent;
  /** Payment with the intent's key or fingerprint; else the payment that holds the intent's name. */
  readonly known: PaymentRecord | undefined;
  /** Checks whether a one-time nonce is used up and has not expired. */
  readonly isNonceUsed: (nonce: OneTimeNonce) => boolean;
  readonly hasRoom: boolean;
  /** Undecided payments that are no longer young, of everyone and of the intent's payer. */
  readonly undecided: { readonly total: number; readonly ofPayer: number };
  /**
   * Token units of the payer's authorized and unsettled payments in the intent's token, and of the payer's payments
   * in it that were settled since the funds were read.
   */
  readonly openUnits: bigint;
  readonly limits: UndecidedLimits | undefined;
  /** Why a module does not let the payment begin; undefined if it does. */
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
    // A nonce that expired on the way here may have been used, and forgotten since.
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
 * Checks what holds at any time: each payment that is settled or charged after its job has exactly one JobCall, and the money for each
 * dead one is kept, accounted for by a part, or was never charged.
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
/** Later than any payment, and exact in milliseconds. */
const NO_HOUR = 2_000_000_000;

/**
 * Returns the first hour (Unix hours) of a revenue report that comes from the sums by hour. The payments before it are
 * summed one by one: those of the first, incomplete hour, or all of them for buckets that hours do not fill.
 */
export function firstSummedHour({ since, bucketMs }: RevenuePeriod): number {
  return bucketMs % HOUR_MS === 0 ? Math.ceil(since / HOUR_MS) : NO_HOUR;
}
