import type { JobCall, JobKey } from "../job-call.ts";
import type { CallerNonce, PaymentIntent, PaymentKey, PaymentRecord, PaymentState } from "../payment.ts";

/**
 * The middle of jobgate: whatever is in it survives, whatever is not has not been promised to anyone.
 *
 * Every method that changes something resolves only once the change is durable. When it rejects with a
 * `GatewayError("store_unavailable")`, the change was not made. With any other error nobody knows: a store on another
 * machine can be lost while it commits.
 * Two kinds of outcome are values, not errors: what the business expects to happen (a full queue, a payment
 * known already) is in the returned union; only a store that does not work rejects.
 */
export interface Store
  extends Intake,
    PaymentJournal,
    WorkQueue,
    DeadLetterBox,
    CallLookup,
    OfferLedger,
    QuoteLedger {
  /** What the store can promise right now, from memory: no round trip. */
  status(): StoreStatus;
  /** Totals by state, for operators and for checking that the journal balances. */
  totals(): Promise<StoreTotals>;
  /** What came in, for operators: one entry for each token and bucket of time in which anything did, oldest first. */
  revenue(period: RevenuePeriod): Promise<Revenue[]>;
  /** Waits for what is in flight, then closes. Safe to call twice. */
  close(): Promise<void>;
}

export interface StoreStatus {
  readonly writable: boolean;
  /** Why it is not writable, for the operator. */
  readonly reason?: string;
  /** No room for another JobCall: `max_pending` is reached. */
  readonly full: boolean;
}

/** Is told of every batch of changes once it is decided. Must be quick and not throw. */
export type BatchListener = (batch: {
  readonly operations: number;
  readonly durationMs: number;
  readonly committed: boolean;
}) => void;

/** For webhooks: one write makes one JobCall. */
export interface Intake {
  accept(call: JobCall): Promise<{ kind: "accepted"; callId: number } | { kind: "queue_full" }>;

  /**
   * Accepts a call unless its delivery is a repeat of one that was accepted within the window; looking and writing are
   * one, so that exactly one of many racing repeats is accepted. A repeat is told even when the queue is full, and
   * only what is accepted is remembered.
   */
  acceptOnce(call: JobCall, delivery: Delivery): Promise<AcceptOnceOutcome>;
}

/** By what a delivery is known again when it is repeated. */
export interface Delivery {
  /** All are remembered with the call, in place of what was remembered under the same key. */
  readonly keys: readonly DeliveryKey[];
  /** Of what does not differ between repeats. */
  readonly bodyHash: string;
  /** How long it is remembered from now on. */
  readonly windowMs: number;
}

export interface DeliveryKey {
  /** Unique over all endpoints; at most 100 characters. */
  readonly key: string;
  /** Whether an earlier delivery with the same key is the same delivery. */
  readonly identifies: boolean;
}

/**
 * - `duplicate`: with the call of the first delivery, finished or not.
 * - `conflict`: a key that identifies it belongs to a delivery with another body hash.
 */
export type AcceptOnceOutcome =
  | { kind: "accepted"; callId: number }
  | { kind: "duplicate"; callId: number }
  | { kind: "conflict" }
  | { kind: "queue_full" };

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

/** For runners: at least once, by lease. */
export interface WorkQueue {
  /**
   * Takes up to `limit` due JobCalls in order of their call id, each with a new lease and its attempt counted.
   * A JobCall that has used up `maxAttempts` becomes a dead letter instead: whichever jobs are asked for, and with a
   * `limit` of 0 too, all whose lease has run out do.
   */
  claim(request: ClaimRequest): Promise<ClaimedCall[]>;

  /** Done. `result` is kept for the paying client. */
  ack(lease: Lease, result?: JobResult): Promise<LeaseOutcome>;

  /** Not done: due again after `delayMs`, or a dead letter once `maxAttempts` are used up. */
  retry(lease: Lease, retry: RetryRequest): Promise<LeaseOutcome>;

  /** Not done and never will be: a dead letter. */
  fail(lease: Lease, reason: string): Promise<LeaseOutcome>;

  /**
   * The lease now runs out `leaseMs` from now. `progress` is kept with it until the lease is over; without one, what
   * was told before stays.
   */
  extend(
    lease: Lease,
    leaseMs: number,
    progress?: Progress,
  ): Promise<{ outcome: LeaseOutcome; leaseExpiresAt: number }>;

  /**
   * Gives a JobCall back because its stream ended: due again at once.
   * `excused` releases do not count towards `maxAttempts` (the gateway went away, not the runner), but the
   * next delivery still has a higher attempt number. One that uses up `maxAttempts` makes a dead letter.
   */
  release(lease: Lease, options: ReleaseOptions): Promise<LeaseOutcome>;

  /**
   * Tells of new work, as early as possible: a claim made inside the listener may share the write that accepts
   * the work. `nextDueAt` in the result of {@link nextDue} covers work that becomes due by time alone.
   * @returns a function that ends the subscription
   */
  onWork(listener: () => void): () => void;

  /** When the earliest lease or retry delay runs out, Unix milliseconds; undefined when nothing is waiting. */
  nextDue(): Promise<number | undefined>;

  /** Absent where only this process gives out and ends leases. */
  readonly sharedLeases?: SharedLeases;
}

/** For a process whose leases others may end and renew. */
export interface SharedLeases {
  /** How the leases stand now, in their order. */
  look(leases: readonly Lease[]): Promise<LeaseStanding[]>;
  /**
   * Tells of JobCalls whose leases were ended by a process that had not given them out. Soon, but what is told may be
   * lost on its way.
   * @returns a function that ends the subscription
   */
  onEndedElsewhere(listener: (callIds: readonly number[]) => void): () => void;
}

/**
 * - `held`: until `leaseExpiresAt`.
 * - `lease_lost`, `not_found`: as in {@link LeaseOutcome}.
 *
 * `at` is when it stood so. All times are Unix milliseconds, by the store's clock.
 */
export type LeaseStanding =
  | { readonly kind: "held"; readonly at: number; readonly leaseExpiresAt: number }
  | { readonly kind: "lease_lost"; readonly at: number }
  | { readonly kind: "not_found" };

export interface ClaimRequest {
  readonly limit: number;
  /** Only these jobs; empty means all. */
  readonly jobIds: readonly bigint[];
  readonly leaseMs: number;
  readonly maxAttempts: number;
  /** Kept with the lease, for the operator. */
  readonly subscriber: string;
}

export interface ReleaseOptions {
  readonly excused: boolean;
  readonly maxAttempts: number;
}

export interface Lease {
  readonly callId: number;
  readonly leaseToken: string;
  /** Another process gave it out, and is to be told when it ends. Default: no. */
  readonly fromElsewhere?: boolean;
}

export interface ClaimedCall extends Lease {
  /** The bytes that the encoder made when the JobCall was accepted. */
  readonly encoded: Uint8Array;
  readonly attempt: number;
  /** Unix milliseconds. */
  readonly enqueuedAt: number;
  /** Unix milliseconds, by the store's clock. */
  readonly leaseExpiresAt: number;
}

/**
 * - `done`: it took effect.
 * - `lease_lost`: the JobCall is still to be finished, but this lease ran out or was released.
 * - `not_found`: no such JobCall is to be finished.
 */
export type LeaseOutcome = "done" | "lease_lost" | "not_found";

/** How far a runner has come with a JobCall, in its own words. */
export interface Progress {
  /** 0 to 100. */
  readonly percent: number;
  readonly text: string;
}

export interface JobResult {
  readonly body: Uint8Array;
  readonly contentType: string;
}

export interface RetryRequest {
  /** Milliseconds until it is due again; undefined means the backoff. */
  readonly delayMs?: number;
  readonly backoff: RetryBackoff;
  readonly maxAttempts: number;
  readonly reason: string;
}

/** Delay of attempt n: `baseMs * 2^(n-1)`, at most `maxMs`, times a random factor in [0, 1) (full jitter). */
export interface RetryBackoff {
  readonly baseMs: number;
  readonly maxMs: number;
}

export interface DeadLetterBox {
  /** Newest first. `before` is the `callId` to page from. */
  listDeadLetters(filter: { limit: number; before?: number }): Promise<DeadLetter[]>;
  findDeadLetter(callId: number): Promise<(DeadLetter & { encoded: Uint8Array }) | undefined>;
  /** Puts it back in the queue with its attempts forgiven; the attempt number goes on counting. */
  retryDeadLetter(callId: number): Promise<boolean>;
  /** Gives it up for good. A paid call's journal entry stays and says that it failed. */
  dropDeadLetter(callId: number): Promise<boolean>;
}

export interface DeadLetter {
  readonly callId: number;
  readonly origin: JobCall["origin"];
  readonly jobId: bigint;
  readonly serviceId: bigint;
  readonly attempts: number;
  readonly reason: string;
  /** Unix milliseconds. */
  readonly enqueuedAt: number;
  /** Unix milliseconds. */
  readonly deadAt: number;
}

/** For the client who paid: how its call is doing. Only paid calls are kept after they are done. */
export interface CallLookup {
  findCall(callId: number): Promise<CallState | undefined>;
  findResult(callId: number): Promise<JobResult | undefined>;
}

export interface CallState {
  readonly callId: number;
  /** The quote digest that proves the asker paid for it. */
  readonly receipt: string;
  readonly state: "held" | "queued" | "running" | "succeeded" | "failed";
  readonly attempt: number;
  /** Only while `running`, and only once the runner has told of it. */
  readonly progress?: Progress;
  /** Unix milliseconds. */
  readonly enqueuedAt: number;
  /** Unix milliseconds. */
  readonly finishedAt?: number;
}

/** The prices that clients were offered, so that they stay payable over changes, restarts and replicas. */
export interface OfferLedger {
  /** Writes new ones down; one that is there keeps the later of its ends. Those that have ended are forgotten. */
  saveOffers(offers: readonly NewOffer[]): Promise<void>;
  /** Those of one job that have not ended, the one that ends last first. */
  findOffers(job: JobKey): Promise<SavedOffer[]>;
}

interface KnownOffer {
  readonly id: string;
  readonly job: JobKey;
  /** JSON */
  readonly offer: string;
}

export interface NewOffer extends KnownOffer {
  /** How long from now on, by the store's clock: whose clock the offer was made by does not matter. */
  readonly validForMs: number;
}

export interface SavedOffer extends KnownOffer {
  /** By the store's clock, Unix milliseconds. */
  readonly validUntil: number;
}

/** Signed quotes of the pricing engine that can be paid, once each, until they expire. */
export interface QuoteLedger {
  /** Writes a quote down. A digest that is there already keeps what was written first, which is given back. */
  saveQuote(quote: SavedQuote): Promise<SavedQuote>;
  /** `isPaid`: a payment with this digest as its receipt was or may have been made. Expired quotes are forgotten. */
  findQuote(digest: string): Promise<(SavedQuote & { readonly isPaid: boolean }) | undefined>;
}

export interface SavedQuote {
  /** EIP-712 digest, 64 lower-case hex digits. */
  readonly digest: string;
  /** JSON */
  readonly quote: string;
  /** Unix milliseconds. */
  readonly expiresAt: number;
}

export interface StoreTotals {
  /** Payments by state. */
  readonly payments: Readonly<Record<PaymentState, number>>;
  /** JobCalls of both gateways by state; `ready` includes those waiting for a retry. */
  readonly calls: Readonly<Record<"held" | "ready" | "leased" | "dead", number>>;
  /**
   * JobCalls of settled payments only, so that settled = ready + leased + done + dead at any time.
   * `dead` includes dead letters that the operator dropped.
   */
  readonly paidCalls: Readonly<Record<"ready" | "leased" | "done" | "dead", number>>;
  /** When the JobCall that waits longest for a runner or a retry was accepted, Unix milliseconds. */
  readonly oldestReadyAt?: number;
}

/** From when on, and in buckets of which length; buckets begin at multiples of it. */
export interface RevenuePeriod {
  /** Unix milliseconds. */
  readonly since: number;
  readonly bucketMs: number;
}

/** What payments of one token brought in that were settled in one bucket of time. */
export interface Revenue {
  /** Start of the bucket, Unix milliseconds. */
  readonly from: number;
  /** CAIP-2. */
  readonly network: string;
  readonly asset: string;
  readonly symbol: string;
  /** Token units. */
  readonly amount: bigint;
  readonly payments: number;
}
