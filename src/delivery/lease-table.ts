import type { Clock } from "../core/clock.ts";
import type { Lease } from "../store/contract/work-queue.ts";

/** A delivery that was sent and is not finished. */
export interface OutLease extends Lease {
  /** True if an earlier stream ended with the JobCall unfinished. */
  readonly suspect: boolean;
  /** End of the lease on this process's monotonic clock. */
  expiresAt: number;
  /** End of the lease on the store's clock, in Unix milliseconds. */
  leaseExpiresAt: number;
  /** True if another process renewed the lease last, because the runner continues at that process. */
  renewedElsewhere: boolean;
  /**
   * Requests about the lease that the store has not answered yet. While there are any, the lease is neither expired nor
   * released.
   */
  pendingRequests: number;
  /** The stream on which the JobCall was sent; undefined once that stream has ended. */
  holder: LeaseHolder | undefined;
}

/** The members of a stream that leases use. */
interface LeaseHolder {
  /** Returns true if an attempt during which this process stops is counted. */
  countsAtStop(lease: OutLease): boolean;
  /** Frees the slot that a finished lease took up. */
  leaseGone(lease: OutLease): void;
}

/** Bounds how often a table with many leases is searched for expired leases. */
const MIN_SWEEP_INTERVAL_MS = 20;

/** Leases that this process granted, by token, because unary calls name the token rather than the stream. */
export class LeaseTable {
  readonly #clock: Clock;
  readonly #onExpired: (leases: readonly OutLease[]) => void;
  readonly #onAbandoned: (lease: OutLease) => void;
  readonly #leases = new Map<string, OutLease>();
  readonly #emptyListeners = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;
  #sweepAt = Number.POSITIVE_INFINITY;

  constructor(options: {
    readonly clock: Clock;
    /** Called with leases that have expired on this process's clock. It must remove or renew them. */
    readonly onExpired: (leases: readonly OutLease[]) => void;
    /** Called when the last request about a lease is answered after the lease's stream has ended. */
    readonly onAbandoned: (lease: OutLease) => void;
  }) {
    this.#clock = options.clock;
    this.#onExpired = options.onExpired;
    this.#onAbandoned = options.onAbandoned;
  }

  add(lease: OutLease): void {
    this.#leases.set(lease.leaseToken, lease);
    this.#sweepBy(lease.expiresAt);
  }

  /** Returns undefined for an unknown token, or for the token of another JobCall. */
  find({ callId, leaseToken }: Lease): OutLease | undefined {
    const lease = this.#leases.get(leaseToken);
    return lease?.callId === callId ? lease : undefined;
  }

  /** Removes the lease and notifies its holder. */
  remove(lease: OutLease): void {
    if (this.#leases.get(lease.leaseToken) !== lease) return;
    this.#leases.delete(lease.leaseToken);
    lease.holder?.leaseGone(lease);
    if (this.#leases.size === 0) for (const listener of this.#emptyListeners) listener();
  }

  renew(lease: OutLease, end: Pick<OutLease, "expiresAt" | "leaseExpiresAt" | "renewedElsewhere">): void {
    Object.assign(lease, end);
    this.#sweepBy(end.expiresAt);
  }

  /** Keeps the lease from expiring or being released until the matching {@link endRequest}. */
  beginRequest(lease: OutLease): void {
    lease.pendingRequests++;
  }

  endRequest(lease: OutLease): void {
    lease.pendingRequests--;
    const isAbandoned = lease.holder === undefined && lease.pendingRequests === 0;
    if (isAbandoned && this.#leases.get(lease.leaseToken) === lease) this.#onAbandoned(lease);
  }

  all(): OutLease[] {
    return [...this.#leases.values()];
  }

  /** Resolves when no lease is left, or after `timeoutMs`. */
  whenEmpty(timeoutMs: number): Promise<void> {
    if (this.#leases.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timeout);
        this.#emptyListeners.delete(done);
        resolve();
      };
      const timeout = setTimeout(done, timeoutMs);
      this.#emptyListeners.add(done);
    });
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #sweepBy(expiresAt: number): void {
    if (expiresAt >= this.#sweepAt) return;
    clearTimeout(this.#timer);
    const delayMs = Math.max(MIN_SWEEP_INTERVAL_MS, expiresAt - this.#clock());
    this.#sweepAt = this.#clock() + delayMs;
    this.#timer = setTimeout(() => this.#sweep(), delayMs).unref();
  }

  #sweep(): void {
    this.#sweepAt = Number.POSITIVE_INFINITY;
    const now = this.#clock();
    const expired = this.all().filter(
      ({ expiresAt, pendingRequests }) => expiresAt <= now && pendingRequests === 0,
    );
    if (expired.length > 0) this.#onExpired(expired);
    let next = Number.POSITIVE_INFINITY;
    for (const { expiresAt } of this.#leases.values()) next = Math.min(next, expiresAt);
    if (next < Number.POSITIVE_INFINITY) this.#sweepBy(next);
  }
}
