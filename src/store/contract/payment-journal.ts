import type { JobCall } from "../../core/job-call.ts";
import type {
  OneTimeNonce,
  PaymentClosing,
  PaymentIntent,
  PaymentKey,
  PaymentRecord,
  PaymentState,
  PurchaseName,
} from "../../core/payment.ts";
import type { DeadLetteredCall, DecidedCharge } from "./work-queue.ts";

/** An authorization that is not charged yet. */
export interface EndingAuthorization extends Pick<PaymentIntent, "transferMethod" | "validBefore"> {
  readonly callId: number;
}

/** Journal of paid jobs. Money moves only after its payment is in the journal. */
export interface PaymentJournal {
  /**
   * True if other processes also write to the journal. Another process may then be handling an intent that this process did
   * not begin.
   */
  readonly isShared: boolean;

  findPayment(key: PaymentKey): Promise<PaymentRecord | undefined>;
  /** Finds the payment with a fingerprint, which is unique and does not depend on the unsigned parts of the payment. */
  findPaymentByFingerprint(fingerprint: string): Promise<PaymentRecord | undefined>;

  /** Finds the payment of a named purchase, unless the payment failed, because the name can then have another payment. */
  findPaymentByPurchaseName(name: PurchaseName): Promise<PaymentRecord | undefined>;

  /** Returns true if a charge after a job of this payer failed within {@link LOSS_MS}. */
  hasLoss(payer: string): Promise<boolean>;

  /** Returns true if a payment that was or may have been made has used the nonce, and the nonce has not expired since. */
  isNonceUsed(nonce: OneTimeNonce): Promise<boolean>;

  /**
   * Write before the settlement: adds the intent, its JobCall (held, if it is charged `before`) and its one-time nonces
   * atomically. If several calls with one key, one name or one nonce race, exactly one call gets `begun`. A name whose
   * payment failed can be paid again. A nonce is free again once its payment has failed, unless the job ran and the run used
   * the nonce up ({@link OneTimeNonce.isOfCharge}).
   *
   * `max_pending` includes an intent only for its first {@link YOUNG_MS}, and never includes an unresolved payment.
   * @param limits limits of intents that are older than {@link YOUNG_MS}; default: none
   */
  beginPayment(intent: PaymentIntent, call: JobCall, limits?: UndecidedLimits): Promise<BeginPaymentOutcome>;

  /**
   * Write after the settlement: marks the payment settled and its JobCall ready atomically. Idempotent, because a settled
   * payment does not change. Also settles an `unresolved` payment, and a watched `failed` payment that is charged `before`.
   * A failed payment loses its name if another payment has been begun under the name.
   * @param settlement JSON of the settlement response
   * @param blockNumber block of the settlement, if the chain was queried
   * @param amount token units that moved; default: the payment's amount
   * @param isEarly a fork may still replace the block: the payment is watched until {@link finalizePayment}, however long that takes
   */
  settlePayment(
    key: PaymentKey,
    settlement: string,
    blockNumber?: string,
    amount?: string,
    isEarly?: boolean,
  ): Promise<SettlePaymentOutcome>;

  /**
   * Ends the watch over a payment that settled early, because a final block now contains it.
   * @param blockNumber the final block, which may differ from the earlier block
   * @returns true for exactly one call if several calls, in any processes, finalize the same payment
   */
  finalizePayment(key: PaymentKey, blockNumber?: string): Promise<boolean>;

  /**
   * Records that the chain shows no transfer. Takes the held JobCall out of the queue and frees the one-time nonces. The
   * payment is watched, and its JobCall kept, because the chain may still show otherwise. Only an `intent` or `unresolved`
   * payment can fail.
   */
  failPayment(key: PaymentKey, settlement: string, reason: string): Promise<FailPaymentOutcome>;

  /**
   * Marks a payment unresolved, because jobgate cannot decide it and the operator has to. The JobCall stays held.
   * @returns the payment if this call changed it: only an `intent` can become unresolved
   */
  leavePaymentUnresolved(key: PaymentKey, reason: string): Promise<PaymentRecord | undefined>;

  /**
   * Checks that a payment is durably in a state. A failover can lose a state that was only read, so a payment that was read
   * is settled only after this check.
   */
  confirmPayment(key: PaymentKey, state: PaymentState): Promise<boolean>;

  /**
   * Records the operator's decision: settles or fails the payment, and watches it. Settling queues the JobCall exactly once.
   * Accepts payments that {@link "../rules/payments.ts".PAYMENT_TRANSITIONS} lets the operator close.
   */
  closePayment(key: PaymentKey, closing: PaymentClosing): Promise<ClosePaymentOutcome>;

  /**
   * Records that the chain contradicts the state of a watched payment, and ends the watch.
   * @param settlement JSON of the settlement response with the transfer that happened; default: unchanged
   * @returns true for exactly one call if several calls, in any processes, contradict the same payment
   */
  contradictPayment(key: PaymentKey, reason: string, settlement?: string): Promise<boolean>;

  /**
   * Ends the watch over payments that were decided more than {@link WATCHED_MS} ago. Also ends the watch over the
   * oldest payments beyond {@link MAX_WATCHED}, a limit that applies to payments charged `before` and to other payments
   * separately. Payments that settled early stay watched. JobCalls kept for failed payments are dropped. One call
   * handles a bounded number.
   * @returns true if there may be more to do
   */
  endWatches(): Promise<boolean>;

  /**
   * Lists the authorizations that expire before a time and are not charged yet, the earliest first.
   * @param beforeSecs Unix seconds
   */
  listEndingAuthorizations(beforeSecs: number, limit: number): Promise<EndingAuthorization[]>;

  /**
   * Ends an authorization at the last moment at which it can be charged. If the job is running and its runner names the
   * charge, the job is charged the amount that the runner last reported, but at least the payment's `minCharge`, and
   * continues. Any other JobCall becomes a dead letter, which releases the payment.
   */
  endAuthorization(callId: number): Promise<EndAuthorizationOutcome>;

  /**
   * Lists undecided payments of one state, or watched payments, oldest first. `after` is the `callId` to page from.
   * `watched`: decided payments that the chain may still contradict, which are failed payments, released payments, and
   * payments that the operator closed. `early`: payments that settled in a block that a fork may still replace.
   */
  listUndecided(filter: {
    state: UndecidedState;
    limit: number;
    after?: number;
  }): Promise<UndecidedPayment[]>;
}

export type UndecidedState = "intent" | "settling" | "unresolved" | "watched" | "early";

/** Time after a failed charge in which the payer must pay before a job runs. */
export const LOSS_MS = 24 * 60 * 60_000;

/** Time after the decision for which a payment is watched. */
export const WATCHED_MS = 24 * 60 * 60_000;
/**
 * Limit on watched payments. Payments charged `before` and other payments have separate limits, so that jobs that charge
 * nothing cannot end the watch over failed payments. Each watched failed payment keeps its request's body.
 */
export const MAX_WATCHED = 10_000;

/** Age up to which an undecided payment occupies a place in the queue. */
export const YOUNG_MS = 60_000;

/** Limits of undecided payments that are older than {@link YOUNG_MS}. */
export interface UndecidedLimits {
  readonly maxUndecided: number;
  readonly maxOpenPerPayer: number;
  /** Token units that the payer can pay after the job, decimal. Undefined if the amount is not known. */
  readonly funds?: string;
  /** Age of {@link funds}. The funds may still include amounts that were settled since they were read. Undefined means 0. */
  readonly fundsAgeMs?: number;
}

export interface UndecidedPayment extends PaymentRecord {
  /** Milliseconds since the payment was begun, on the store's clock. */
  readonly ageMs: number;
}

export type BeginPaymentOutcome =
  | { kind: "begun"; callId: number }
  /** The journal has this payment, or another payment under the same purchase name. */
  | { kind: "payment_known"; record: PaymentRecord }
  /** `key` is the key of the first used nonce. */
  | { kind: "nonce_used"; key: string }
  /** Rows of a part do not allow the payment to begin. */
  | { kind: "not_taken"; reason: string }
  | { kind: "too_many_undecided" }
  | { kind: "too_many_open_payments" }
  /** The payer cannot pay this payment in addition to the open payments in the same token. */
  | { kind: "insufficient_funds" }
  | { kind: "queue_full" };

export type SettlePaymentOutcome =
  /** If several calls settle one payment, `changed` is true for exactly one call over all processes. */
  { kind: "settled"; callId: number; changed: boolean; record: PaymentRecord } | { kind: "not_open" };

/** `record` is the payment in its present state; undefined if there is no such payment. */
export type ClosePaymentOutcome =
  | { kind: "closed"; record: PaymentRecord }
  | { kind: "not_open"; record: PaymentRecord | undefined };

/** `not_open`: the payment has been charged or released. */
type EndAuthorizationOutcome =
  | { readonly kind: "charged"; readonly charge: DecidedCharge }
  | { readonly kind: "dead_lettered"; readonly deadLettered: DeadLetteredCall }
  | { readonly kind: "not_open" };

export type FailPaymentOutcome = { kind: "failed"; record: PaymentRecord } | { kind: "not_open" };
