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
 * The middle of jobgate. Everything in the store survives, and jobgate has promised nothing that is not in the store.
 *
 * Every method that changes something resolves only once the change is durable. When it rejects with a
 * `GatewayError("store_unavailable")`, the change was not made. With any other error the outcome is unknown, because a
 * store on another machine can be lost while it commits. Expected outcomes (a full queue, a payment that is known
 * already) are values in the returned union; only a store that does not work rejects.
 *
 * Most methods are operations of operations.ts, which both dialects implement. The modules of parts add further
 * operations.
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
  /** Returns the present state of the store from memory, without a round trip. */
  status(): StoreStatus;
  /** Returns the totals by state, including pruned entries, for operators and for checking that the journal balances. */
  totals(): Promise<StoreTotals>;
  /** Returns the settled amounts by token and bucket of time, oldest first. Empty buckets are left out. */
  revenue(period: RevenuePeriod): Promise<Revenue[]>;
  /** Counts the JobCalls that a runner could claim now, by job. JobCalls that wait for their next attempt are not counted. */
  countWaiting(jobs: JobIdFilter): Promise<WaitingJob[]>;
  /**
   * Opens new connections of a shared store with this URL. Open connections stay. If the store could not write, the promise
   * resolves once it can, or after a few seconds.
   */
  useUrl?(url: string): Promise<void>;
  /** Waits for operations in flight, then closes. Safe to call twice. */
  close(): Promise<void>;
}

export interface StoreStatus {
  readonly writable: boolean;
  /** Reason why the store is not writable, for the operator. */
  readonly reason?: string;
  /** Number of unfinished JobCalls that `max_pending` includes, as of the last write. */
  readonly pending: number;
  /** True if there is no room for another JobCall, because `max_pending` is reached. */
  readonly full: boolean;
}

/** Operations that a module of a part adds to the store, as their callers see them. */
export interface Contract<Methods> {
  /** Carries only the type. */
  readonly methods?: Methods;
}

/** Another store, in this or another process, owns the database file. */
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
  /**
   * Payments among `payments` that are charged after their jobs. Each has a JobCall among `paidCalls`. The JobCall of an
   * `authorized` payment is not finished.
   */
  readonly deferred: Readonly<Record<Exclude<PaymentState, "intent">, number>>;
  /** JobCalls of both gateways by state; `ready` includes JobCalls that wait for a retry. */
  readonly calls: Readonly<Record<"held" | "ready" | "leased" | "dead", number>>;
  /**
   * JobCalls of settled and deferred payments, so that ready + leased + done + dead always equals the number of these
   * payments. `dead` includes dead letters that the operator dropped, and finished JobCalls with a status of 400 or
   * above.
   */
  readonly paidCalls: Readonly<Record<"ready" | "leased" | "done" | "dead", number>>;
  /**
   * Dead JobCalls among `paidCalls` whose money the seller keeps and no part accounts for. At any time, dead = kept +
   * uncharged + accounted.
   */
  readonly kept: number;
  /** Dead JobCalls among `paidCalls` whose payments were released. */
  readonly uncharged: number;
  /** Dead JobCalls among `paidCalls` whose money parts account for. */
  readonly accounted: number;
  /** Sums that parts count, by the parts' names for them. */
  readonly sums: Readonly<Record<string, unknown>>;
  /** Acceptance of the JobCall that waits longest for a runner or a retry, Unix milliseconds. */
  readonly oldestReadyAt?: number | undefined;
}

/** Totals in a build whose parts count nothing. */
export const TOTALS_OF_NO_PART = { accounted: 0, sums: {} } as const satisfies Partial<StoreTotals>;

/** Jobs by the IDs that runners name: these jobs, or all jobs except these. */
export interface JobIdFilter {
  readonly kind: "only" | "except";
  readonly jobIds: readonly bigint[];
}

/** JobCalls of one job that wait for a runner. */
export interface WaitingJob extends CalledJob {
  readonly count: number;
  /** Time at which the oldest JobCall was accepted, Unix milliseconds. */
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
