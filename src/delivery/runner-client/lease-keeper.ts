import { LeaseStatus } from "../../gen/jobgate/v1/runner_pb.ts";

/** A lease that is renewed until it is let go. */
export interface KeptLease {
  /** Aborted once the lease is lost: another runner may have the JobCall. */
  readonly lost: AbortSignal;
  /** Asks at once whether the lease is still held, as after a broken stream. */
  renew(): void;
  /** Renews no more. */
  letGo(): void;
  /** Takes the lease for lost. */
  giveUp(): void;
}

const MIN_LEASE_MS = 1_000;
const MAX_INTERVAL_MS = 10_000;
const RETRY_MS = 500;

/**
 * Renews a lease at a third of its length, so that two renewals may fail. It is lost when jobgate says so, and when
 * it could not be renewed for its whole length.
 */
export function keepLease(options: {
  readonly extend: () => Promise<LeaseStatus>;
  /** Unix time in ms, by jobgate's clock. */
  readonly expiresAtMs: number;
}): KeptLease {
  const { extend, expiresAtMs } = options;
  // Clocks may differ: a lease that seems to have run out on arrival is renewed soon, not given up.
  const leaseMs = Math.max(MIN_LEASE_MS, expiresAtMs - Date.now());
  const intervalMs = Math.min(leaseMs / 3, MAX_INTERVAL_MS);
  const lost = new AbortController();
  let validUntil = performance.now() + leaseMs;
  let timer: NodeJS.Timeout | undefined;
  let asking = false;
  let over = false;

  const end = (): void => {
    over = true;
    clearTimeout(timer);
  };
  const giveUp = (): void => {
    end();
    lost.abort();
  };
  const renewLater = (delayMs: number): void => {
    clearTimeout(timer);
    timer = setTimeout(() => void renew(), delayMs);
  };
  const renew = async (): Promise<void> => {
    if (asking || over) return;
    asking = true;
    const askedAt = performance.now();
    const status = await extend().catch(() => undefined);
    asking = false;
    if (over) return;
    if (status === LeaseStatus.DONE) {
      validUntil = askedAt + leaseMs;
      renewLater(intervalMs);
    } else if (status !== undefined || performance.now() >= validUntil) {
      giveUp();
    } else {
      renewLater(Math.min(RETRY_MS, intervalMs));
    }
  };
  renewLater(intervalMs);
  return { lost: lost.signal, renew: () => void renew(), letGo: end, giveUp };
}
