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

/** Journal of paid jobs: no money moves before its payment is written here. */
export interface PaymentJournal {
  /** Other processes write to it too: an intent that this one did not begin may be in the hands of another. */
  readonly isShared: boolean;

  findPayment(key: PaymentKey): Promise<PaymentRecord | undefined>;
  /** Finds this very payment, regardless of its unsigned parts. `fingerprint` is unique. */
  findPaymentByFingerprint(fingerprint: string): Promise<PaymentRecord | undefined>;

  /** Finds the payment that was made under a purchase's name, unless it failed: then another one may be. */
  findPaymentByPurchaseName(name: PurchaseName): Promise<PaymentRecord | undefined>;

  /** Checks whether a charge failed, within {@link LOSS_MS}, of a job that this payer was to pay after it ran. */
  hasLoss(payer: string): Promise<boolean>;

  /** Checks whether a payment that was or may have been made used up the nonce, which has not expired since. */
  isNonceUsed(nonce: OneTimeNonce): Promise<boolean>;

  /**
   * The write before settling: the intent, its JobCall (held back from runners, if it is charged `before`) and its
   * one-time nonces, all or none. When several begins with one key, one name or one nonce race, exactly one gets
   * `begun`. A name whose payment failed can be paid again. A nonce is free again once its payment has failed, unless
   * the job ran and the run used the nonce up ({@link OneTimeNonce.isOfCharge}).
   *
   * An intent counts against `max_pending` for its first {@link YOUNG_MS} only, an unresolved payment never.
   * @param limits for intents that are older than that; default: none
   */
  beginPayment(intent: PaymentIntent, call: JobCall, limits?: UndecidedLimits): Promise<BeginPaymentOutcome>;

  /**
   * The write after settling: the payment is settled and its JobCall is ready, in one. Idempotent: a payment that is
   * settled already stays as it is. Also settles an `unresolved` payment, and a `failed` one that is charged `before` while it is
   * watched, which loses its name if another payment was begun under it since.
   * @param settlement JSON of the settlement response
   * @param blockNumber block that the settlement is in, if the chain was asked
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
   * Ends the watch over a payment that settled early: a block that no fork can replace has it.
   * @param blockNumber that block, which may be another one than before
   * @returns true for one call alone, in whichever process, if several ask for the same
   */
  finalizePayment(key: PaymentKey, blockNumber?: string): Promise<boolean>;

  /**
   * The chain shows that nothing moved: takes the held JobCall out of the queue and frees the one-time nonce. The
   * payment is watched, and its JobCall kept, because the chain may still show otherwise.
   * Only an `intent` or `unresolved` payment can fail.
   */
  failPayment(key: PaymentKey, settlement: string, reason: string): Promise<FailPaymentOutcome>;

  /**
   * Nothing more can be found out automatically: the operator has to look. The JobCall stays held.
   * @returns the payment if this call changed it: only an `intent` can become unresolved
   */
  leavePaymentUnresolved(key: PaymentKey, reason: string): Promise<PaymentRecord | undefined>;

  /**
   * Checks that a payment is durably in a state. A fail-over can lose a state that was only read, so every settlement that a
   * read payment leads to comes after this check.
   */
  confirmPayment(key: PaymentKey, state: PaymentState): Promise<boolean>;

  /**
   * The operator decides: settles or fails the payment, and watches it. Settling queues the JobCall exactly once. Takes
   * payments that {@link "../rules/payments.ts".PAYMENT_TRANSITIONS} lets the operator close.
   */
  closePayment(key: PaymentKey, closing: PaymentClosing): Promise<ClosePaymentOutcome>;

  /**
   * Notes that the chain contradicts what is recorded of a watched payment, and ends the watch.
   * @param settlement JSON of the settlement response, where it says what moved; default: as it is
   * @returns true for one call alone, in whichever process, if several ask for the same
   */
  contradictPayment(key: PaymentKey, reason: string, settlement?: string): Promise<boolean>;

  /**
   * Ends the watch over payments decided more than {@link WATCHED_MS} ago, and the oldest beyond {@link MAX_WATCHED} of those that
   * are charged `before`, and of others. Payments that settled early stay watched. JobCalls kept for failed ones are dropped. One call does a bounded part.
   * @returns true if there may be more to do
   */
  endWatches(): Promise<boolean>;

  /**
   * Lists the authorizations that end before a time and are not charged yet, the first to end first.
   * @param beforeSecs Unix seconds
   */
  listEndingAuthorizations(beforeSecs: number, limit: number): Promise<EndingAuthorization[]>;

  /**
   * The last moment to charge a payment has come. A job that runs and is charged in part is charged for what its runner last
   * reported, at least the payment's `minCharge`, and goes on. Any other becomes a dead letter, which releases the payment.
   */
  endAuthorization(callId: number): Promise<EndAuthorizationOutcome>;

  /**
   * Undecided payments of one state, or the watched ones, oldest first. `after` is the `callId` to page from. `watched`:
   * decided payments that the chain may still contradict: failed and released ones, and those that the operator closed. `early`:
   * payments that settled in a block that a fork may still replace.
   */
  listUndecided(filter: {
    state: UndecidedState;
    limit: number;
    after?: number;
  }): Promise<UndecidedPayment[]>;
}

export type UndecidedState = "intent" | "settling" | "unresolved" | "watched" | "early";

/** Time after a failed charge for which its payer has to pay before a job runs. */
export const LOSS_MS = 24 * 60 * 60_000;

/** Time after the decision for which a payment is watched. */
export const WATCHED_MS = 24 * 60 * 60_000;
/**
 * Most payments watched at a time, those that are charged `before` and others apart, so that jobs that charge nothing cannot end the watch over
 * failed payments. Each of those keeps its request's body.
 */
export const MAX_WATCHED = 10_000;

/** Age up to which an undecided payment keeps a place in the queue. */
export const YOUNG_MS = 60_000;

/** Limits of undecided payments that are older than {@link YOUNG_MS}. */
export interface UndecidedLimits {
  readonly maxUndecided: number;
  readonly maxOpenPerPayer: number;
  /** Token units that the payer can pay after the job, decimal. Absent when that is not known. */
  readonly funds?: string;
  /** Time since {@link funds} were read. What was settled meanwhile may be in them still. Absent: none. */
  readonly fundsAgeMs?: number;
}

export interface UndecidedPayment extends PaymentRecord {
  /** Milliseconds since it was begun, by the store's clock. */
  readonly ageMs: number;
}

export type BeginPaymentOutcome =
  | { kind: "begun"; callId: number }
  /** The journal has this payment, or another payment under the same purchase name. */
  | { kind: "payment_known"; record: PaymentRecord }
  /** `key` is the key of the first nonce that is used up. */
  | { kind: "nonce_used"; key: string }
  /** Rows of a part do not allow it. */
  | { kind: "not_taken"; reason: string }
  | { kind: "too_many_undecided" }
  | { kind: "too_many_open_payments" }
  /** The payer cannot pay this payment beside the open ones in the same token. */
  | { kind: "insufficient_funds" }
  | { kind: "queue_full" };

export type SettlePaymentOutcome =
  /** If several calls settle one payment, `changed` is true for exactly one call, over all processes. */
  { kind: "settled"; callId: number; changed: boolean; record: PaymentRecord } | { kind: "not_open" };

/** `record` is the payment as it is; undefined if there is none. */
export type ClosePaymentOutcome =
  | { kind: "closed"; record: PaymentRecord }
  | { kind: "not_open"; record: PaymentRecord | undefined };

/** `not_open`: the payment has been charged or released. */
type EndAuthorizationOutcome =
  | { readonly kind: "charged"; readonly charge: DecidedCharge }
  | { readonly kind: "dead_lettered"; readonly deadLettered: DeadLetteredCall }
  | { readonly kind: "not_open" };

export type FailPaymentOutcome = { kind: "failed"; record: PaymentRecord } | { kind: "not_open" };
