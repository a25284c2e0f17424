import { RateLimiterMemory, RateLimiterRes } from "rate-limiter-flexible";
import { GatewayError } from "../core/errors.ts";

/**
 * Counts uses by key in windows of a fixed length. The limit comes with each use, so one object serves keys with
 * different limits and keeps its counts when a reload changes them.
 */
export class RateLimit {
  readonly #limiter: RateLimiterMemory;

  constructor(windowSecs = 1) {
    this.#limiter = new RateLimiterMemory({ points: 1, duration: windowSecs });
  }

  /** Counts one use. @returns undefined within the limit; otherwise the milliseconds until the window ends */
  async exceeded(key: string, limit: number): Promise<number | undefined> {
    // consume() reads the limit before it returns, so no other call can change it in between.
    this.#limiter.points = limit;
    try {
      await this.#limiter.consume(key);
      return undefined;
    } catch (rejection) {
      if (rejection instanceof RateLimiterRes) return rejection.msBeforeNext;
      throw rejection;
    }
  }

  /**
   * Counts one use.
   * @param reason start of the refusal's message
   * @throws GatewayError `rate_limited` above the limit
   */
  async count(key: string, limit: number, reason: string): Promise<void> {
    const waitMs = await this.exceeded(key, limit);
    if (waitMs !== undefined) throw rateLimited(reason, waitMs);
  }
}

/** Refusal that tells the client when to try again, in its message and in `Retry-After`. */
export function rateLimited(reason: string, waitMs: number): GatewayError {
  const retryAfterSecs = Math.max(1, Math.ceil(waitMs / 1000));
  return new GatewayError("rate_limited", `${reason}: try again in ${retryAfterSecs} s.`, {
    headers: { "retry-after": String(retryAfterSecs) },
  });
}
