import { RateLimiterMemory, RateLimiterRes } from "rate-limiter-flexible";
import type { X402Limits } from "../../config/config.ts";
import { GatewayError } from "../../core/errors.ts";

/** Keeps one client from making jobgate answer, or ask its facilitator, without end and without ever paying. */
export interface ClientLimits {
  /** Counts a request that carries no payment. @throws GatewayError `rate_limited` */
  countUnpaid(clientAddress: string): Promise<void>;
  /** Runs a verification, if the client and the facilitator have room for one more. @throws GatewayError `rate_limited` */
  whileVerifying<Result>(clientAddress: string, verify: () => Promise<Result>): Promise<Result>;
}

export function createClientLimits(limits: X402Limits): ClientLimits {
  const unpaid = new RateLimiterMemory({ points: limits.maxUnpaidPerSecondPerClient, duration: 1 });
  const verifying = new Map<string, number>();
  let verifyingInAll = 0;

  return {
    async countUnpaid(clientAddress) {
      try {
        await unpaid.consume(clientAddress);
      } catch (rejection) {
        if (!(rejection instanceof RateLimiterRes)) throw rejection;
        throw rateLimited("Too many requests without a payment", Math.ceil(rejection.msBeforeNext / 1000));
      }
    },

    async whileVerifying(clientAddress, verify) {
      const ofClient = verifying.get(clientAddress) ?? 0;
      if (ofClient >= limits.maxVerifiesPerClient || verifyingInAll >= limits.maxVerifies) {
        throw rateLimited("Too many payments are being verified at once", 1);
      }
      verifying.set(clientAddress, ofClient + 1);
      verifyingInAll++;
      try {
        return await verify();
      } finally {
        verifyingInAll--;
        const left = (verifying.get(clientAddress) ?? 1) - 1;
        if (left === 0) verifying.delete(clientAddress);
        else verifying.set(clientAddress, left);
      }
    },
  };
}

function rateLimited(what: string, retryAfterSecs: number): GatewayError {
  return new GatewayError("rate_limited", `${what}. Nothing was charged: try again in ${retryAfterSecs} s.`, {
    headers: { "retry-after": String(retryAfterSecs) },
  });
}
