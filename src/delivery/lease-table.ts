import type { Clock } from "../core/clock.ts";
import type { Lease } from "../store/contract/work-queue.ts";

/** One delivery that is out and not finished. */
export interface OutLease extends Lease {
  /** When it runs out by this process's clock, Unix milliseconds. */
  expiresAt: number;
  /** The same by the store's clock. */
  leaseExpiresAt: number;
  /** It was renewed last by another process: the runner that holds it goes on there. */
  renewedElsewhere: boolean;
  /** Requests about it that are with the store right now: until they are decided it is neither expired nor released. */
  requestsInHand: number;
  /** The stream that it went out on; undefined once that stream has ended. */
  holder: LeaseHolder | undefined;
}

/** Is told when a lease no longer takes up one of its slots. */
export interface LeaseHolder {
  leaseGone(lease: OutLease): void;
}

/** Every lease that this process gave out, by token: unary calls name the token, not the stream. */
export interface LeaseTable {
  add(lease: OutLease): void;
  /** Undefined when unknown here, or when the token is another JobCall's. */
  find(lease: Lease): OutLease | undefined;
  /** Takes it out and tells its holder. */
  remove(lease: OutLease): void;
  renew(lease: OutLease, end: Pick<OutLease, "expiresAt" | "leaseExpiresAt" | "renewedElsewhere">): void;
  /**
   * Keeps the lease from running out or being released while the store decides about it.
   * @returns a function that ends this
   */
  takeInHand(lease: OutLease): () => void;
  all(): OutLease[];
  /** Resolves when no lease is out, or after `timeoutMs`. */
  whenEmpty(timeoutMs: number): Promise<void>;
  stop(): void;
}

/** Bounds how often a table with many leases is gone through. */
const MIN_SWEEP_INTERVAL_MS = 20;

export interface LeaseTableOptions {
  readonly clock: Clock;
  /** By this process's clock, leases have run out before anyone finished their JobCalls. They are to be removed or renewed. */
  readonly onRanOut: (leases: readonly OutLease[]) => void;
  /** A lease is in nobody's hand any more, and its stream has ended meanwhile. */
  readonly onAbandoned: (lease: OutLease) => void;
}

export function createLeaseTable({ clock, onRanOut, onAbandoned }: LeaseTableOptions): LeaseTable {
  const leases = new Map<string, OutLease>();
  const emptyListeners = new Set<() => void>();
  let timer: NodeJS.Timeout | undefined;
  let sweepAt = Number.POSITIVE_INFINITY;

  function remove(lease: OutLease): void {
    if (leases.get(lease.leaseToken) !== lease) return;
    leases.delete(lease.leaseToken);
    lease.holder?.leaseGone(lease);
    if (leases.size === 0) for (const listener of emptyListeners) listener();
  }

  function sweepBy(expiresAt: number): void {
    if (expiresAt >= sweepAt) return;
    clearTimeout(timer);
    const delayMs = Math.max(MIN_SWEEP_INTERVAL_MS, expiresAt - clock());
    sweepAt = clock() + delayMs;
    timer = setTimeout(sweep, delayMs).unref();
  }

  function sweep(): void {
    sweepAt = Number.POSITIVE_INFINITY;
    const now = clock();
    const ranOut = [...leases.values()].filter(
      ({ expiresAt, requestsInHand }) => expiresAt <= now && requestsInHand === 0,
    );
    if (ranOut.length > 0) onRanOut(ranOut);
    let next = Number.POSITIVE_INFINITY;
    for (const { expiresAt } of leases.values()) next = Math.min(next, expiresAt);
    if (next < Number.POSITIVE_INFINITY) sweepBy(next);
  }

  return {
    add(lease) {
      leases.set(lease.leaseToken, lease);
      sweepBy(lease.expiresAt);
    },
    find({ callId, leaseToken }) {
      const lease = leases.get(leaseToken);
      return lease?.callId === callId ? lease : undefined;
    },
    remove,
    renew(lease, end) {
      Object.assign(lease, end);
      sweepBy(end.expiresAt);
    },
    takeInHand(lease) {
      lease.requestsInHand++;
      return () => {
        lease.requestsInHand--;
        const isOver = lease.holder === undefined && lease.requestsInHand === 0;
        if (isOver && leases.get(lease.leaseToken) === lease) onAbandoned(lease);
      };
    },
    all: () => [...leases.values()],
    whenEmpty(timeoutMs) {
      if (leases.size === 0) return Promise.resolve();
      return new Promise((resolve) => {
        const done = () => {
          clearTimeout(timeout);
          emptyListeners.delete(done);
          resolve();
        };
        const timeout = setTimeout(done, timeoutMs);
        emptyListeners.add(done);
      });
    },
    stop() {
      clearTimeout(timer);
    },
  };
}
