import { backoffMs } from "../../core/backoff.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";

/** Payments whose next attempt is remembered; a forgotten one is tried early. */
const MAX_REMEMBERED = 20_000;
/** Longest delay before the next attempt at one payment. */
const MAX_DELAY_MS = 30_000;
/**
 * Longest delay once the authorization has ended: two looks have to show that nothing moved, within 15 s of the block that
 * shows it first.
 */
const MAX_ENDED_DELAY_MS = 5_000;

/** Times of the next attempt at each payment. Each delay is twice the last. */
export class RetryTimes {
  readonly #clock: Clock;
  /** Keyed by fingerprint. */
  readonly #times = boundedCache<string, { readonly nextAt: number; readonly attempts: number }>(
    MAX_REMEMBERED,
  );

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  isDue(fingerprint: string): boolean {
    return this.#clock() >= (this.#times.get(fingerprint)?.nextAt ?? 0);
  }

  /** Notes an attempt. */
  retryLater(fingerprint: string, firstDelayMs: number, longestDelayMs: number): void {
    const attempts = this.#times.get(fingerprint)?.attempts ?? 0;
    const delayMs = backoffMs({ firstMs: firstDelayMs, longestMs: longestDelayMs }, attempts);
    this.#times.set(fingerprint, { attempts: attempts + 1, nextAt: this.#clock() + delayMs });
  }
}

/** Returns the longest time until the next check of a payment whose authorization ends in so long. */
export function longestDelay(msLeft: number): number {
  return Math.min(MAX_DELAY_MS, Math.max(msLeft, MAX_ENDED_DELAY_MS));
}
