import type { PaidAmount } from "../../core/events.ts";
import type { JobCallOrigin, JobLimit } from "../../core/job-call.ts";
import type { ResultHeader } from "../../core/result-answer.ts";

/** Work for runners, delivered at least once: each delivery holds a lease. */
export interface WorkQueue {
  /**
   * Leases up to `limit` due JobCalls in the order of their call IDs, and counts an attempt for each. First expires leases
   * as {@link expireLeases} does, and dead-letters due JobCalls that have used up `maxAttempts`.
   */
  claim(request: ClaimRequest): Promise<Claimed>;

  /**
   * Ends all expired leases and retry delays of all jobs. Each JobCall becomes due again, or a dead letter once
   * `maxAttempts` are used up.
   * @returns the new dead letters
   */
  expireLeases(maxAttempts: number): Promise<DeadLetteredCall[]>;

  /**
   * Finishes a JobCall. `result` is kept for the paying client. A result with a status of 400 or above makes the JobCall
   * failed, without a dead letter.
   * @param charge charge of a JobCall whose runner names it, within its ceiling ({@link ceilings}); default: the whole
   *   ceiling. A status outside 200 to 299 charges nothing.
   */
  ack(lease: Lease, result?: JobResult, charge?: Charge): Promise<AckedLease>;

  /**
   * Stores the next chunk of a result that is too large for one write. The lease must still hold. The {@link ack} of
   * this lease says by {@link JobResult.storedBytes} that the result is in the chunks. Chunks that no ack refers to are
   * deleted.
   * @param place position of the chunk, from 0. A chunk replaces an earlier chunk at its position
   * @param bytes `RESULT_CHUNK_BYTES`; the last chunk may have fewer
   */
  appendResult(lease: Lease, place: number, bytes: Uint8Array): Promise<LeaseOutcome>;

  /** Finds the job of each JobCall; undefined for a finished JobCall. */
  jobsOf(callIds: readonly number[]): Promise<(CalledJob | undefined)[]>;

  /**
   * Finds the ceiling of each JobCall, in token units: null if the runner does not name the JobCall's charge. The
   * ceiling is undefined if the JobCall is finished. It is also undefined if the operator sent the JobCall, because
   * jobgate then ignores the charge that a runner names.
   */
  ceilings(callIds: readonly number[]): Promise<(string | null | undefined)[]>;

  /** Fails the attempt. The JobCall is due again after `delayMs`, or a dead letter once `maxAttempts` are used up. */
  retry(lease: Lease, retry: RetryRequest): Promise<EndedLease>;

  /** Withholds a JobCall that is ready or delayed, if the operator has paused its key. @returns false for any other JobCall */
  withhold(callId: number): Promise<boolean>;

  /** Makes the JobCall a dead letter, because its failure is permanent. */
  fail(lease: Lease, reason: string): Promise<EndedLease>;

  /**
   * Sets the end of the lease to `leaseMs` from now. `progress` and `chargeSoFar` are kept until the lease is over. If one
   * is omitted, its last value is kept.
   */
  extend(
    lease: Lease,
    leaseMs: number,
    progress?: Progress,
    chargeSoFar?: Charge,
  ): Promise<{ outcome: LeaseOutcome; leaseExpiresAt: number }>;

  /**
   * Releases a JobCall because its stream ended. The JobCall is due again after the backoff, as a suspect. Once
   * `maxAttempts` are used up, the JobCall becomes a dead letter when its lease would have expired. If its connection
   * carried no other JobCall, it becomes a dead letter at once. An `excused` release makes the JobCall due again at
   * once and does not count towards `maxAttempts`, because the gateway stopped rather than the runner. The next
   * delivery still has a higher attempt number.
   */
  release(lease: Lease, options: ReleaseOptions): Promise<EndedLease>;

  /**
   * Calls `listener` when there may be new work, as early as possible, because a claim made inside the listener can
   * share the write that accepts the work. Work that becomes due by time alone is not announced; {@link nextDueMs}
   * returns its time.
   * @returns a function that ends the subscription
   */
  onWork(listener: () => void): () => void;

  /**
   * Returns the milliseconds, on the store's clock, until the earliest lease or retry delay ends: negative if it has ended,
   * undefined if nothing is waiting. Ignores suspects that are already due, because they wait for a stream.
   */
  nextDueMs(): Promise<number | undefined>;

  /** Undefined if only this process grants and ends leases. */
  readonly sharedLeases?: SharedLeases | undefined;
}

/** Leases that other processes can end and renew. */
export interface SharedLeases {
  /** Returns the state of each lease, in the order of the leases. */
  look(leases: readonly Lease[]): Promise<LeaseStanding[]>;
  /**
   * Calls `listener` soon with JobCalls whose leases were ended by a process that had not granted them. A notification may
   * be lost.
   * @returns a function that ends the subscription
   */
  onEndedElsewhere(listener: (callIds: readonly number[]) => void): () => void;
}

/**
 * - `held`: until `leaseExpiresAt`.
 * - `lease_lost`, `not_found`: as in {@link LeaseOutcome}.
 *
 * `at` is the time of the query. All times are Unix milliseconds on the store's clock.
 */
export type LeaseStanding =
  | { readonly kind: "held"; readonly at: number; readonly leaseExpiresAt: number }
  | { readonly kind: "lease_lost"; readonly at: number }
  | { readonly kind: "not_found" };

export interface ClaimRequest {
  readonly limit: number;
  /** Job filter; empty for all jobs except {@link exceptJobIds}. */
  readonly jobIds: readonly bigint[];
  /** Jobs that a claim of all jobs excludes. Default: none. */
  readonly exceptJobIds?: readonly bigint[];
  /** True if the claim returns JobCalls of jobs that are reserved in the store. Default: false. */
  readonly reserves?: boolean;
  readonly leaseMs: number;
  readonly maxAttempts: number;
  /** Name of the subscriber, which is kept with the lease for the operator. */
  readonly subscriber: string;
  /**
   * Largest number of suspects to claim. A suspect is a JobCall that was lost with its stream, and may have crashed the
   * runner. The claim returns either suspects or other JobCalls, never both, and prefers suspects. Default: no suspects are
   * searched for.
   */
  readonly suspects?: number | undefined;
  /** Limits of jobs. Default: none. */
  readonly limits?: readonly JobLimit[];
}

export interface Claimed {
  readonly calls: ClaimedCall[];
  /** JobCalls that became dead letters instead of getting another attempt. */
  readonly deadLettered: DeadLetteredCall[];
  /** Set if the claim searched for suspects and left some that are due. */
  readonly suspectsLeft?: boolean;
  /** Milliseconds until the rate of a job allows its next JobCall; undefined if no rate withholds a JobCall. */
  readonly nextInMs?: number | undefined;
}

/** A JobCall that an operation moved to the dead letters. */
export interface DeadLetteredCall {
  readonly callId: number;
  readonly reason: string;
  /** Unix milliseconds, on the store's clock. */
  readonly deadAt: number;
  /** Set if the JobCall's payment was open. The payment is released without a charge. */
  readonly released?: DecidedCharge;
  /** Owner of the key that the dead letter holds up; undefined if it holds no key. */
  readonly holdsKeyOf?: string;
}

/** Decision about a payment that is charged after its job: the charge to settle, or that nothing is charged. */
export interface DecidedCharge extends PaidAmount {
  readonly state: "settling" | "released";
}

export interface AckedLease {
  readonly outcome: LeaseOutcome;
  /** Set if the ack decided a payment. */
  readonly charge?: DecidedCharge;
}

export interface EndedLease {
  readonly outcome: LeaseOutcome;
  /** Set if the JobCall became a dead letter. */
  readonly deadLettered?: DeadLetteredCall;
}

export interface ReleaseOptions {
  readonly excused: boolean;
  /** True if the JobCall was already a suspect, which an excused release does not change. Default: false. */
  readonly suspect?: boolean | undefined;
  /** Reason why the delivery ended. Default: the stream ended. */
  readonly reason?: string | undefined;
  /**
   * True if the connection carried no other JobCall. Such a JobCall becomes a dead letter at once if its attempts are used
   * up. Default: false.
   */
  readonly wasAlone?: boolean | undefined;
  readonly maxAttempts: number;
  readonly backoff: RetryBackoff;
}

export interface Lease {
  readonly callId: number;
  readonly leaseToken: string;
  /** True if another process granted the lease. That process is notified when the lease ends. Default: false. */
  readonly fromElsewhere?: boolean;
}

export interface ClaimedCall extends Lease {
  /** The bytes that the encoder made when the JobCall was accepted. */
  readonly encoded: Uint8Array;
  readonly attempt: number;
  /** Number of attempts that do not count, because no runner saw them or the operator retried their dead letter. */
  readonly forgiven: number;
  /** Unix milliseconds. */
  readonly enqueuedAt: number;
  /** Unix milliseconds, on the store's clock. */
  readonly leaseExpiresAt: number;
  /** True if the JobCall was lost with its stream before. It must be the only unfinished JobCall of its stream. */
  readonly suspect: boolean;
  /** True if the JobCall is charged after it ran, so nothing has moved yet. */
  readonly deferred: boolean;
}

/**
 * - `done`: the request took effect.
 * - `lease_lost`: the JobCall is still unfinished, but this lease ran out or was released.
 * - `not_found`: no unfinished JobCall has this id.
 */
export type LeaseOutcome = "done" | "lease_lost" | "not_found";

/** Progress of a JobCall in its runner's own words. */
export interface Progress {
  /** 0 to 100. */
  readonly percent: number;
  readonly text: string;
}

/** Charge that a runner names: token units in decimal, or hundredths of a percent of the ceiling. */
export type Charge = { readonly units: string } | { readonly basisPoints: number };

/** Job that a JobCall runs. */
export interface CalledJob {
  readonly origin: JobCallOrigin;
  readonly serviceId: bigint;
  readonly jobId: bigint;
}

export interface JobResult {
  readonly body: Uint8Array;
  /** Size of a result that is stored in chunks and whose `body` is empty; undefined if `body` is the result. */
  readonly storedBytes?: number | undefined;
  readonly contentType: string;
  /** HTTP status; undefined means 200. */
  readonly status?: number | undefined;
  /** Headers in addition to the content type; undefined for none. */
  readonly headers?: readonly ResultHeader[] | undefined;
}

export interface RetryRequest {
  /** Milliseconds until the JobCall is due again; undefined for the backoff. */
  readonly delayMs?: number | undefined;
  readonly backoff: RetryBackoff;
  readonly maxAttempts: number;
  readonly reason: string;
}

/** Delay of attempt n: `baseMs * 2^(n-1)`, at most `maxMs`, times a random factor in [0, 1) (full jitter). */
export interface RetryBackoff {
  readonly baseMs: number;
  readonly maxMs: number;
}
