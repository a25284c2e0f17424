import { backoffMs } from "../../core/backoff.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";

/** Number of payments whose next attempt is remembered. A forgotten payment is tried early. */
const MAX_REMEMBERED = 20_000;
/** Longest delay before the next attempt at one payment. */
const MAX_DELAY_MS = 30_000;
/**
 * Longest delay when the authorization has ended a short time ago. Within 15 s of the block that first shows the end,
 * two observations have to show that no money moved, and some observations fail.
 */
const MAX_ENDED_DELAY_MS = 2_000;
const SHORT_TIME_MS = 60_000;
/** Longest delay when the authorization has ended long ago, so that many such payments do not overload an RPC. */
const MAX_LATE_DELAY_MS = 5_000;
/** Longest delay before the next check of a decided payment. */
const MAX_DECIDED_DELAY_MS = 3_600_000;

/** Times of the next attempt at each payment. Each delay is twice the delay before it. */
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

  /** Forgets a payment, because it is decided. */
  forget(fingerprint: string): void {
    this.#times.delete(fingerprint);
  }

  /** Records an attempt. The next attempt is due after the first delay, however many attempts there were. */
  retrySoon(fingerprint: string, firstDelayMs: number): void {
    this.#times.set(fingerprint, { attempts: 1, nextAt: this.#clock() + firstDelayMs });
  }

  /** Notes an attempt. */
  retryLater(fingerprint: string, firstDelayMs: number, longestDelayMs: number): void {
    const attempts = this.#times.get(fingerprint)?.attempts ?? 0;
    const delayMs = backoffMs({ firstMs: firstDelayMs, longestMs: longestDelayMs }, attempts);
    this.#times.set(fingerprint, { attempts: attempts + 1, nextAt: this.#clock() + delayMs });
  }
}

/** Returns the longest time until the next check of a payment, by the time until its authorization ends. */
export function longestDelay(msLeft: number): number {
  if (msLeft < -SHORT_TIME_MS) return MAX_LATE_DELAY_MS;
  return Math.min(MAX_DELAY_MS, Math.max(msLeft, MAX_ENDED_DELAY_MS));
}

/**
 * Returns the number of checks of a decided payment that are due up to an age. The first check is due at once, the second at
 * `firstDelayMs`, and each further check at twice the age of the check before it, or every hour once the age is above an
 * hour. The reconciler compares two ages, so that it does not have to remember thousands of payments.
 */
export function decidedChecksDue(ageMs: number, firstDelayMs: number): number {
  if (ageMs < 0) return 0;
  const doublings = Math.log2(Math.min(ageMs, MAX_DECIDED_DELAY_MS) / firstDelayMs);
  const hours = Math.floor(Math.max(0, ageMs / MAX_DECIDED_DELAY_MS - 1));
  return 1 + Math.max(0, 1 + Math.floor(doublings)) + hours;
}
