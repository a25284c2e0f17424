import type { Clock } from "../clock.ts";
import type { Lease } from "../store/store.ts";

/** One delivery that is out and not finished. */
export interface OutLease extends Lease {
  /** When it runs out by this process's clock, Unix milliseconds. */
  expiresAt: number;
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
  renew(lease: OutLease, expiresAt: number): void;
  all(): OutLease[];
  /** Resolves when no lease is out, or after `timeoutMs`. */
  whenEmpty(timeoutMs: number): Promise<void>;
  stop(): void;
}

/** Bounds how often a table with many leases is gone through. */
const MIN_SWEEP_INTERVAL_MS = 20;

export interface LeaseTableOptions {
  readonly clock: Clock;
  /** A lease ran out before anyone finished its JobCall. */
  readonly onExpired: () => void;
}

export function createLeaseTable({ clock, onExpired }: LeaseTableOptions): LeaseTable {
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
    let next = Number.POSITIVE_INFINITY;
    for (const lease of [...leases.values()]) {
      if (lease.expiresAt <= now && lease.requestsInHand === 0) {
        remove(lease);
        onExpired();
      } else next = Math.min(next, lease.expiresAt);
    }
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
    renew(lease, expiresAt) {
      lease.expiresAt = expiresAt;
      sweepBy(expiresAt);
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
