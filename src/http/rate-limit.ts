import { RateLimiterMemory, RateLimiterRes } from "rate-limiter-flexible";
import { GatewayError } from "../core/errors.ts";

/** Counts an authentic request. @throws GatewayError `rate_limited` */
export type RateLimit = () => Promise<void>;

/** How many requests of one endpoint this process takes in a second. */
export function createRateLimit(perSecond: number): RateLimit {
  const limiter = new RateLimiterMemory({ points: perSecond, duration: 1 });
  return async () => {
    try {
      await limiter.consume("endpoint");
    } catch (rejection) {
      if (!(rejection instanceof RateLimiterRes)) throw rejection;
      const retryAfterSecs = Math.max(1, Math.ceil(rejection.msBeforeNext / 1000));
      throw new GatewayError(
        "rate_limited",
        `This endpoint takes ${perSecond} requests a second: try again in ${retryAfterSecs} s.`,
        { headers: { "retry-after": String(retryAfterSecs) } },
      );
    }
  };
}
