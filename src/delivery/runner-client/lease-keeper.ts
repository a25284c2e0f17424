import { LeaseStatus } from "../../gen/jobgate/v1/runner_pb.ts";

const MIN_LEASE_MS = 1_000;
const MAX_INTERVAL_MS = 10_000;
const RETRY_MS = 500;

/**
 * Renews a lease at a third of its length, so that two renewals may fail. The lease is lost when jobgate says so, or
 * when it could not be renewed for its whole length.
 */
export class LeaseKeeper {
  readonly #extend: () => Promise<LeaseStatus>;
  readonly #leaseMs: number;
  readonly #intervalMs: number;
  readonly #lost = new AbortController();
  #validUntil: number;
  #timer: NodeJS.Timeout | undefined;
  #asking = false;
  #over = false;

  constructor(options: {
    readonly extend: () => Promise<LeaseStatus>;
    /** Unix milliseconds, by jobgate's clock. */
    readonly expiresAtMs: number;
  }) {
    this.#extend = options.extend;
    // Clocks may differ: a lease that seems to have expired on arrival is renewed soon, not given up.
    this.#leaseMs = Math.max(MIN_LEASE_MS, options.expiresAtMs - Date.now());
    this.#intervalMs = Math.min(this.#leaseMs / 3, MAX_INTERVAL_MS);
    this.#validUntil = performance.now() + this.#leaseMs;
    this.#renewLater(this.#intervalMs);
  }

  /** Aborts once the lease is lost: another runner may have the JobCall. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** Renews at once, as after a broken stream. */
  async renew(): Promise<void> {
    if (this.#asking || this.#over) return;
    this.#asking = true;
    const askedAt = performance.now();
    const status = await this.#extend().catch(() => undefined);
    this.#asking = false;
    if (this.#over) return;
    if (status === LeaseStatus.DONE) {
      this.#validUntil = askedAt + this.#leaseMs;
      this.#renewLater(this.#intervalMs);
    } else if (status !== undefined || performance.now() >= this.#validUntil) {
      this.giveUp();
    } else {
      this.#renewLater(Math.min(RETRY_MS, this.#intervalMs));
    }
  }

  /** Stops renewing. */
  letGo(): void {
    this.#over = true;
    clearTimeout(this.#timer);
  }

  /** Treats the lease as lost. */
  giveUp(): void {
    this.letGo();
    this.#lost.abort();
  }

  #renewLater(delayMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.renew(), delayMs);
  }
}
