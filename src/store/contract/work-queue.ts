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
