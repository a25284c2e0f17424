import type { PaidAmount } from "../../core/events.ts";
import type { JobCallOrigin, JobLimit } from "../../core/job-call.ts";
import type { ResultHeader } from "../../core/result-answer.ts";

/** Work for runners, delivered at least once: each delivery holds a lease. */
export interface WorkQueue {
  /**
   * Leases up to `limit` due JobCalls in order of their call id and counts an attempt for each. Does what
   * {@link expireLeases} does first; a due JobCall that has used up `maxAttempts` becomes a dead letter too.
   */
  claim(request: ClaimRequest): Promise<Claimed>;

  /**
   * Ends all leases and retry delays that ran out, of all jobs: each JobCall is due again, or a dead letter once
   * `maxAttempts` are used up.
   * @returns the new dead letters
   */
  expireLeases(maxAttempts: number): Promise<DeadLetteredCall[]>;

  /**
   * The runner is done. `result` is kept for the paying client. A result with a status of 400 or above makes the JobCall
   * failed, without a dead letter.
   * @param charge for a JobCall that is charged in part, as {@link ceilings} allows it; default: its whole ceiling. Nothing is
   * charged with a status outside 200 to 299.
   */
  ack(lease: Lease, result?: JobResult, charge?: Charge): Promise<AckedLease>;

  /**
   * Stores the next chunk of a result that is too large for one write, while its lease holds. The {@link ack} of this lease
   * says by {@link JobResult.storedBytes} that the result is in the chunks. Chunks that no ack names are forgotten.
   * @param place of the chunk: 0 is the first. A chunk replaces the one at its place
   * @param bytes `RESULT_CHUNK_BYTES`; the last chunk may have fewer
   */
  appendResult(lease: Lease, place: number, bytes: Uint8Array): Promise<LeaseOutcome>;

  /** Finds the job of each JobCall, undefined for one that is finished. */
  jobsOf(callIds: readonly number[]): Promise<(CalledJob | undefined)[]>;

  /**
   * Finds the ceiling of each JobCall, in token units: null if it is not charged in part. Undefined if it is finished, or if
   * the operator sent it: its runner may name a charge, and jobgate charges nobody.
   */
  ceilings(callIds: readonly number[]): Promise<(string | null | undefined)[]>;

  /** Not done: due again after `delayMs`, or a dead letter once `maxAttempts` are used up. */
  retry(lease: Lease, retry: RetryRequest): Promise<EndedLease>;

  /** Not done and never will be: a dead letter. */
  fail(lease: Lease, reason: string): Promise<EndedLease>;

  /**
   * The lease now runs out `leaseMs` from now. `progress` is kept with it until the lease is over; without one, the
   * last progress stays, and so it is with `chargeSoFar`.
   */
  extend(
    lease: Lease,
    leaseMs: number,
    progress?: Progress,
    chargeSoFar?: Charge,
  ): Promise<{ outcome: LeaseOutcome; leaseExpiresAt: number }>;

  /**
   * Gives a JobCall back because its stream ended: due again after the backoff, as a suspect. Once `maxAttempts` are used
   * up it becomes a dead letter when its lease would have run out, or at once if its connection carried it alone.
   * `excused` releases are due again at once and do not count towards `maxAttempts` (the gateway went away, not the
   * runner), but the next delivery still has a higher attempt number.
   */
  release(lease: Lease, options: ReleaseOptions): Promise<EndedLease>;

  /**
   * Calls `listener` when there may be new work, as early as possible: a claim made inside the listener can share the
   * write that accepts the work. Work that becomes due by time alone is not announced: ask {@link nextDueMs}.
   * @returns a function that ends the subscription
   */
  onWork(listener: () => void): () => void;

  /**
   * Milliseconds, by the store's clock, until the earliest lease or retry delay runs out: negative when it has, undefined
   * when nothing is waiting. Suspects that are due already wait for a stream, and do not count.
   */
  nextDueMs(): Promise<number | undefined>;

  /** Absent where only this process gives out and ends leases. */
  readonly sharedLeases?: SharedLeases | undefined;
}

/** Leases that other processes can end and renew. */
export interface SharedLeases {
  /** Returns the present standing of each lease, in their order. */
  look(leases: readonly Lease[]): Promise<LeaseStanding[]>;
  /**
   * Calls `listener` with JobCalls whose leases were ended by a process that had not given them out: soon, but a
   * notification may be lost on its way.
   * @returns a function that ends the subscription
   */
  onEndedElsewhere(listener: (callIds: readonly number[]) => void): () => void;
}

/**
 * - `held`: until `leaseExpiresAt`.
 * - `lease_lost`, `not_found`: as in {@link LeaseOutcome}.
 *
 * `at` is the time of the look. All times are Unix milliseconds, by the store's clock.
 */
export type LeaseStanding =
  | { readonly kind: "held"; readonly at: number; readonly leaseExpiresAt: number }
  | { readonly kind: "lease_lost"; readonly at: number }
  | { readonly kind: "not_found" };

export interface ClaimRequest {
  readonly limit: number;
  /** Only these jobs; empty means all but {@link exceptJobIds}. */
  readonly jobIds: readonly bigint[];
  /** Jobs that a claim of all jobs leaves out. Default: none. */
  readonly exceptJobIds?: readonly bigint[];
  readonly leaseMs: number;
  readonly maxAttempts: number;
  /** Kept with the lease, for the operator. */
  readonly subscriber: string;
  /**
   * Most suspects to claim. A suspect was lost with its stream before, and may be what ended it. The claim brings either
   * suspects or others, never both, and suspects first. Default: does not look for suspects.
   */
  readonly suspects?: number | undefined;
  /** Limits of jobs. Default: none. */
  readonly limits?: readonly JobLimit[];
}

export interface Claimed {
  readonly calls: ClaimedCall[];
  /** JobCalls that became dead letters instead of getting another attempt. */
  readonly deadLettered: DeadLetteredCall[];
  /** Set when the claim looked for suspects and left some that are due. */
  readonly suspectsLeft?: boolean;
  /** Milliseconds until the rate of a job lets its next JobCall go; undefined if no rate withholds one. */
  readonly nextInMs?: number | undefined;
}

/** A JobCall that an operation made a dead letter. */
export interface DeadLetteredCall {
  readonly callId: number;
  readonly reason: string;
  /** Unix milliseconds, by the store's clock. */
  readonly deadAt: number;
  /** Present when its payment was open: nothing is charged. */
  readonly released?: DecidedCharge;
}

/** Decision about a payment that is charged after its job: the charge that is to be settled, or that nothing is charged. */
export interface DecidedCharge extends PaidAmount {
  readonly state: "settling" | "released";
}

export interface AckedLease {
  readonly outcome: LeaseOutcome;
  /** Present when the ack decided a payment. */
  readonly charge?: DecidedCharge;
}

export interface EndedLease {
  readonly outcome: LeaseOutcome;
  /** Present when the JobCall became a dead letter. */
  readonly deadLettered?: DeadLetteredCall;
}

export interface ReleaseOptions {
  readonly excused: boolean;
  /** The JobCall was a suspect before; an excused release keeps it one. Default: false. */
  readonly suspect?: boolean | undefined;
  /** Why its delivery ended. Default: its stream did. */
  readonly reason?: string | undefined;
  /** Its connection carried no other JobCall: with its attempts used up it becomes a dead letter at once. Default: false. */
  readonly wasAlone?: boolean | undefined;
  readonly maxAttempts: number;
  readonly backoff: RetryBackoff;
}

export interface Lease {
  readonly callId: number;
  readonly leaseToken: string;
  /** Another process gave it out, and is notified when it ends. Default: false. */
  readonly fromElsewhere?: boolean;
}

export interface ClaimedCall extends Lease {
  /** The bytes that the encoder made when the JobCall was accepted. */
  readonly encoded: Uint8Array;
  readonly attempt: number;
  /** Number of these attempts that are not counted: no runner saw them, or the operator retried their dead letter. */
  readonly forgiven: number;
  /** Unix milliseconds. */
  readonly enqueuedAt: number;
  /** Unix milliseconds, by the store's clock. */
  readonly leaseExpiresAt: number;
  /** It was lost with its stream before: it must be the only unfinished JobCall of its stream. */
  readonly suspect: boolean;
  /** It is charged after it ran: nothing has moved yet. */
  readonly deferred: boolean;
}

/**
 * - `done`: it took effect.
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

/** Charge for work that is charged in part: token units, decimal, or hundredths of a percent of the ceiling. */
export type Charge = { readonly units: string } | { readonly basisPoints: number };

/** Job that a JobCall runs. */
export interface CalledJob {
  readonly origin: JobCallOrigin;
  readonly serviceId: bigint;
  readonly jobId: bigint;
}

export interface JobResult {
  readonly body: Uint8Array;
  /** Size of a result in chunks, whose `body` is empty; undefined: `body` is the result. */
  readonly storedBytes?: number | undefined;
  readonly contentType: string;
  /** HTTP status; undefined means 200. */
  readonly status?: number | undefined;
  /** Headers beside the content type; undefined means none. */
  readonly headers?: readonly ResultHeader[] | undefined;
}

export interface RetryRequest {
  /** Milliseconds until it is due again; undefined means the backoff. */
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
