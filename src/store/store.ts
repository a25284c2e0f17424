import type { Locks } from "../core/lease-lock.ts";
import type { PaymentState } from "../core/payment.ts";
import type { AdoptionLedger } from "./contract/adoption-ledger.ts";
import type { CallLookup, NonceLedger, SecretKeeper } from "./contract/call-lookup.ts";
import type { DeadLetterBox } from "./contract/dead-letter-box.ts";
import type { Intake } from "./contract/intake.ts";
import type { OperatorLists } from "./contract/operator-lists.ts";
import type { PaymentJournal } from "./contract/payment-journal.ts";
import type { OfferLedger } from "./contract/price-ledgers.ts";
import type { Pruning } from "./contract/pruning.ts";
import type { RefusedPaymentLog } from "./contract/refused-payments.ts";
import type { CalledJob, WorkQueue } from "./contract/work-queue.ts";

/**
 * The middle of jobgate: what is in the store survives; what is not in it has not been promised to anyone.
 *
 * Every method that changes something resolves only once the change is durable. When it rejects with a
 * `GatewayError("store_unavailable")`, the change was not made. With any other error the outcome is unknown: a store on
 * another machine can be lost while it commits.
 * Expected outcomes (a full queue, a payment that is known already) are values in the returned union; only a store that
 * does not work rejects.
 *
 * Each method but a few is an operation of operations.ts, which both dialects implement. The modules of parts add further ones.
 */
export interface Store
  extends Intake,
    PaymentJournal,
    AdoptionLedger,
    RefusedPaymentLog,
    Locks,
    WorkQueue,
    DeadLetterBox,
    OperatorLists,
    CallLookup,
    OfferLedger,
    Pruning,
    SecretKeeper,
    NonceLedger {
  /** Returns the operations of a part's module. */
  of<Methods>(module: Contract<Methods>): Methods;
  /** Present state of the store, from memory: no round trip. */
  status(): StoreStatus;
  /** Totals by state, pruned entries included, for operators and for checking that the journal balances. */
  totals(): Promise<StoreTotals>;
  /** Settled amounts by token and bucket of time, oldest first; empty buckets are left out. */
  revenue(period: RevenuePeriod): Promise<Revenue[]>;
  /** Counts the JobCalls that a runner could have now, by job. JobCalls that wait for their next attempt are not counted. */
  countWaiting(jobs: JobIdFilter): Promise<WaitingJob[]>;
  /**
   * Opens connections by this URL from now on, for a shared store; those that are open stay. If the store could not write, the
   * promise resolves once it can, or after a few seconds.
   */
  useUrl?(url: string): Promise<void>;
  /** Waits for operations in flight, then closes. Safe to call twice. */
  close(): Promise<void>;
}

export interface StoreStatus {
  readonly writable: boolean;
  /** Why it is not writable, for the operator. */
  readonly reason?: string;
  /** Number of unfinished JobCalls that count against `max_pending`, as of the last write. */
  readonly pending: number;
  /** No room for another JobCall: `max_pending` is reached. */
  readonly full: boolean;
}

/** Operations that a module of a part adds to the store, as their callers see them. */
export interface Contract<Methods> {
  /** Only for the type. */
  readonly methods?: Methods;
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
  /** Payments among `payments` that are charged after their jobs. Each has one of `paidCalls`, and an `authorized` one is not finished. */
  readonly deferred: Readonly<Record<Exclude<PaymentState, "intent">, number>>;
  /** JobCalls of both gateways by state; `ready` includes those waiting for a retry. */
  readonly calls: Readonly<Record<"held" | "ready" | "leased" | "dead", number>>;
  /**
   * JobCalls of settled payments and of those in `deferred`, so that ready + leased + done + dead is the number of these payments
   * at any time.
   * `dead` includes dead letters that the operator dropped.
   */
  readonly paidCalls: Readonly<Record<"ready" | "leased" | "done" | "dead", number>>;
  /**
   * Dead JobCalls among `paidCalls` whose money the seller keeps, and no part accounts for: dead = kept + uncharged +
   * accounted at any time.
   */
  readonly kept: number;
  /** Dead ones among `paidCalls` whose payments were released. */
  readonly uncharged: number;
  /** Dead JobCalls among `paidCalls` whose money parts account for. */
  readonly accounted: number;
  /** Sums that parts count, by names of theirs. */
  readonly sums: Readonly<Record<string, unknown>>;
  /** Acceptance of the JobCall that waits longest for a runner or a retry, Unix milliseconds. */
  readonly oldestReadyAt?: number | undefined;
}

/** Totals in a build whose parts count nothing. */
export const TOTALS_OF_NO_PART = { accounted: 0, sums: {} } as const satisfies Partial<StoreTotals>;

/** Jobs by the IDs that runners name: these, or all but these. */
export interface JobIdFilter {
  readonly kind: "only" | "except";
  readonly jobIds: readonly bigint[];
}

/** JobCalls of one job that wait for a runner. */
export interface WaitingJob extends CalledJob {
  readonly count: number;
  /** When the oldest was accepted, Unix milliseconds. */
  readonly oldestAt: number;
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
