import type { PaymentState } from "../core/payment.ts";
import type { CallLookup, SecretKeeper } from "./contract/call-lookup.ts";
import type { DeadLetterBox } from "./contract/dead-letter-box.ts";
import type { Intake } from "./contract/intake.ts";
import type { PaymentJournal } from "./contract/payment-journal.ts";
import type { OfferLedger, QuoteLedger } from "./contract/price-ledgers.ts";
import type { WorkQueue } from "./contract/work-queue.ts";

/**
 * The middle of jobgate: what is in the store survives; what is not in it has not been promised to anyone.
 *
 * Every method that changes something resolves only once the change is durable. When it rejects with a
 * `GatewayError("store_unavailable")`, the change was not made. With any other error the outcome is unknown: a store on
 * another machine can be lost while it commits.
 * Expected outcomes (a full queue, a payment that is known already) are values in the returned union; only a store that
 * does not work rejects.
 *
 * Each method but a few is an operation of operations.ts, which both dialects implement.
 */
export interface Store
  extends Intake,
    PaymentJournal,
    WorkQueue,
    DeadLetterBox,
    CallLookup,
    OfferLedger,
    QuoteLedger,
    SecretKeeper {
  /** Present state of the store, from memory: no round trip. */
  status(): StoreStatus;
  /** Totals by state, for operators and for checking that the journal balances. */
  totals(): Promise<StoreTotals>;
  /** Settled amounts by token and bucket of time, oldest first; empty buckets are left out. */
  revenue(period: RevenuePeriod): Promise<Revenue[]>;
  /** Waits for operations in flight, then closes. Safe to call twice. */
  close(): Promise<void>;
}

export interface StoreStatus {
  readonly writable: boolean;
  /** Why it is not writable, for the operator. */
  readonly reason?: string;
  /** No room for another JobCall: `max_pending` is reached. */
  readonly full: boolean;
}

/** Another store, in this process or another one, owns the database file. */
export class StoreInUseError extends Error {
  override readonly name = "StoreInUseError";
}

/** Called for every batch of changes once it is decided. Must be quick and not throw. */
export type BatchListener = (batch: {
  readonly operations: number;
  readonly durationMs: number;
  readonly committed: boolean;
}) => void;

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
  /** Acceptance of the JobCall that waits longest for a runner or a retry, Unix milliseconds. */
  readonly oldestReadyAt?: number;
}

/** Start and bucket length of a revenue report; buckets begin at multiples of their length. */
export interface RevenuePeriod {
  /** Unix milliseconds. */
  readonly since: number;
  readonly bucketMs: number;
}

/** Sum of one token's payments that were settled in one bucket of time. */
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
