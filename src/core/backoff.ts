/** Delays between attempts: each is twice the last, up to the longest. */
export interface BackoffLimits {
  readonly firstMs: number;
  readonly longestMs: number;
}

/** Bound on the exponent. Without the bound, many failures would make the product infinite. */
const MAX_DOUBLINGS = 52;

/**
 * Returns the delay after a failed attempt.
 * @param failures failed attempts in a row before this one
 */
export function backoffMs({ firstMs, longestMs }: BackoffLimits, failures: number): number {
  return Math.min(longestMs, firstMs * 2 ** Math.min(failures, MAX_DOUBLINGS));
}

/** Shortens a delay by up to half, so that callers that failed together do not retry together. @param random in [0, 1) */
export function withJitter(delayMs: number, random: number): number {
  return delayMs * (0.5 + random / 2);
}

/** Delays of one operation that is retried until it succeeds. */
export class Backoff {
  readonly #limits: BackoffLimits;
  #failures = 0;

  constructor(limits: BackoffLimits) {
    this.#limits = limits;
  }

  /** Returns the delay after one more failed attempt. */
  next(): number {
    const delayMs = backoffMs(this.#limits, this.#failures);
    this.#failures += 1;
    return delayMs;
  }

  reset(): void {
    this.#failures = 0;
  }
}
