import type { JobCall } from "../../core/job-call.ts";
import type {
  CallerNonce,
  PaymentIntent,
  PaymentKey,
  PaymentRecord,
  PaymentState,
} from "../../core/payment.ts";

/** For paid jobs: nothing moves that is not written here first. */
export interface PaymentJournal {
  /** Whether other processes write to it too: an intent that this one did not begin may be in the hands of another. */
  readonly isShared: boolean;

  findPayment(key: PaymentKey): Promise<PaymentRecord | undefined>;
  /** Finds this very payment, whatever its unsigned parts say now. `fingerprint` is unique. */
  findPaymentByFingerprint(fingerprint: string): Promise<PaymentRecord | undefined>;

  /** Whether the nonce was used up before, by a payment that was or may have been made, and has not expired since. */
  isCallerNonceUsed(nonce: CallerNonce): Promise<boolean>;

  /**
   * The write before settling: the intent, its JobCall (held back from runners) and the caller's nonce, all or
   * none. Of several racing begins with one key, one nonce or one receipt, exactly one gets `begun`: the receipt of
   * a payment that failed is free again, and where the intent has a spare one, that is taken instead.
   */
  beginPayment(intent: PaymentIntent, call: JobCall): Promise<BeginPaymentOutcome>;

  /**
   * The write after settling: the payment is settled and its JobCall is ready, in one. Idempotent: on a payment
   * settled before it changes nothing and answers with its call id. Also takes an `unresolved` payment further.
   * @param settlement JSON of the settlement response
   */
  settlePayment(key: PaymentKey, settlement: string): Promise<SettlePaymentOutcome>;

  /**
   * It is certain that nothing moved: the held JobCall is dropped and the caller's nonce is free again.
   * Only an `intent` or `unresolved` payment can fail.
   */
  failPayment(
    key: PaymentKey,
    settlement: string,
    reason: string,
  ): Promise<{ kind: "failed" } | { kind: "not_open" }>;

  /**
   * Nothing more can be found out automatically: the operator is to look. The JobCall stays held.
   * @returns whether it was this that made it so: only an `intent` can become unresolved
   */
  leavePaymentUnresolved(key: PaymentKey, reason: string): Promise<boolean>;

  /** Newest first. `before` is the `callId` to page from. */
  listPayments(filter: { state?: PaymentState; limit: number; before?: number }): Promise<PaymentRecord[]>;

  /** Those of one state that wait to be decided, oldest first. `after` is the `callId` to page from. */
  listUndecided(filter: {
    state: "intent" | "unresolved";
    limit: number;
    after?: number;
  }): Promise<UndecidedPayment[]>;
}

export interface UndecidedPayment extends PaymentRecord {
  /** Since it was begun, by the store's clock, milliseconds. */
  readonly ageMs: number;
}

export type SettlePaymentOutcome =
  /** `changed`: it was this that settled it. Of several that settle one payment, in whatever process, one is told so. */
  { kind: "settled"; callId: number; changed: boolean } | { kind: "not_open" };

export type BeginPaymentOutcome =
  | { kind: "begun"; callId: number; receipt: string }
  | { kind: "receipt_used" }
  | { kind: "payment_known"; record: PaymentRecord }
  | { kind: "caller_nonce_used" }
  | { kind: "queue_full" };
