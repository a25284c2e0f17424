import { backoffMs, withJitter } from "../../core/backoff.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";

const DELAYS = { firstMs: 5_000, longestMs: 4 * 3_600_000 };

/**
 * Returns the time to the next attempt: 5 s, doubled with each, up to 4 hours, of which the last half is random.
 * @param attempts those before this one
 * @param random a number in [0, 1)
 */
export function retryDelayMs(attempts: number, random: number): number {
  return Math.round(withJitter(backoffMs(DELAYS, attempts), random));
}

const PAUSES = { firstMs: 1_000, longestMs: 60_000 };
/** Hosts that failed lately. */
const MAX_HOSTS = 10_000;

/** Leaves a host alone for a while after it failed, so that one that is down costs few requests however many it is owed. */
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
