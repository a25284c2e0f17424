import { backoffMs, withJitter } from "../../core/backoff.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";

const DELAYS = { firstMs: 5_000, longestMs: 4 * 3_600_000 };

/**
 * Returns the time to the next attempt: 5 s, doubled with each attempt, up to 4 hours. Half of the time is random.
 * @param attempts number of earlier attempts
 * @param random a number in [0, 1)
 */
export function retryDelayMs(attempts: number, random: number): number {
  return Math.round(withJitter(backoffMs(DELAYS, attempts), random));
}

const PAUSES = { firstMs: 1_000, longestMs: 60_000 };
/** Largest number of remembered failing hosts. */
const MAX_HOSTS = 10_000;

/**
 * Pauses requests to a host after a failure, so that a host that is down causes few requests, however many callbacks wait
 * for it.
 */
export class HostPauses {
  readonly #clock: Clock;
  readonly #failed = boundedCache<string, { readonly failures: number; readonly until: number }>(MAX_HOSTS);

  /** @param clock monotonic */
  constructor(clock: Clock) {
    this.#clock = clock;
  }

  isOver(host: string): boolean {
    return (this.#failed.get(host)?.until ?? 0) <= this.#clock();
  }

  succeeded(host: string): void {
    this.#failed.delete(host);
  }

  failed(host: string): void {
    const failures = this.#failed.get(host)?.failures ?? 0;
    this.#failed.set(host, {
      failures: failures + 1,
      until: this.#clock() + backoffMs(PAUSES, failures),
    });
  }
}
