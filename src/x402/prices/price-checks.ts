import type { Logger } from "pino";
import type { AcceptedToken } from "../../config/config.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import { amountIn, isPayable } from "../wire/offer.ts";
import type { PayableTokens } from "./payable-tokens.ts";
import type { PriceSource } from "./price-source.ts";
import type { TokenRates } from "./token-rates.ts";

/** Bound on the jobs remembered as logged. */
const MAX_REMEMBERED = 10_000;

interface Parts {
  readonly rates: Pick<TokenRates, "rateOf">;
  readonly logger: Logger;
}

/** Checks that clients can pay a price. Each failure is logged once for each job. */
export class PriceChecks {
  readonly #parts: Parts;
  readonly #tooSmall = boundedCache<string, true>(MAX_REMEMBERED);

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Checks that a token may take the price. One without a rate may take it later. */
  hasAmount(job: JobKey, priceWei: bigint, tokens: readonly AcceptedToken[]): boolean {
    const isPossible = tokens.some((token) => {
      const amount = amountIn(token, priceWei, this.#parts.rates);
      return amount === undefined || isPayable(amount);
    });
    const key = jobKeyText(job.serviceId, job.jobIndex);
    if (isPossible) {
      this.#tooSmall.delete(key);
      return true;
    }
    if (!this.#tooSmall.has(key)) {
      this.#tooSmall.set(key, true);
      this.#parts.logger.error(
        { job: key, priceWei: priceWei.toString() },
        "the price is 0 or more than u64 in units of every accepted token: the job cannot be sold",
      );
    }
    return false;
  }

  /** Returns a source of those prices that clients can pay in one of the tokens. Others mean that the job is not priced. */
  payablePrices(source: PriceSource, tokens: PayableTokens): PriceSource {
    return {
      priceOf: async (job) => {
        const price = await source.priceOf(job);
        return price !== undefined && this.hasAmount(job, price.priceWei, tokens.for(price))
          ? price
          : undefined;
      },
    };
  }
}
