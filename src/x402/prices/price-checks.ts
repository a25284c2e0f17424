import type { Logger } from "pino";
import { isEvm } from "../../chain/chain-client.ts";
import type { AcceptedToken, JobPolicy } from "../../config/config.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";
import type { GatewayError } from "../../core/errors.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import { amountIn, isPayable, secsUntil } from "../wire/offer.ts";
import { type JobPrice, type PriceSource, priceUnavailable } from "./price-source.ts";
import type { TokenRates } from "./token-rates.ts";

/** The accepted tokens by the prices that they can be offered for. */
export class PayableTokens {
  /** Tokens with a rate. */
  readonly forWei: readonly AcceptedToken[];
  readonly #forUsd: readonly AcceptedToken[];
  /** The tokens whose payers can be callers. */
  readonly #ofCallers: PayableTokens;

  constructor(tokens: readonly AcceptedToken[]) {
    this.forWei = tokens.filter(({ rate }) => rate !== undefined);
    this.#forUsd = tokens
      .filter(({ currency }) => currency === "USD")
      .map((token) => ({ ...token, rate: { kind: "fixed", ratePerNativeUnit: "1" } }));
    // A chain that permits callers knows accounts of EVM chains alone.
    const ofCallers = tokens.filter(({ network }) => isEvm(network));
    this.#ofCallers = ofCallers.length === tokens.length ? this : new PayableTokens(ofCallers);
  }

  /**
   * Returns the tokens for a price, always in the same array. For a price in dollars their rate is one token for one
   * dollar: the price is in 10^-18 dollars, so amounts are made as for wei.
   * @param policy of the job; a restricted one is sold in the tokens of callers
   */
  for(price: Pick<JobPrice, "currency">, policy?: Pick<JobPolicy, "restriction">): readonly AcceptedToken[] {
    if (policy?.restriction !== undefined && this.#ofCallers !== this) return this.#ofCallers.for(price);
    return price.currency === "USD" ? this.#forUsd : this.forWei;
  }
}

/** A payment needs 6 s to be verified, settled and mined, and the client some time to sign it. */
const UNPAYABLE_SECS = 7;

/** Bound on the jobs remembered as logged. */
const MAX_REMEMBERED = 10_000;

interface Parts {
  readonly rates: Pick<TokenRates, "rateOf">;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Checks that clients can pay a price. Each failure is logged once for each job. */
export class PriceChecks {
  readonly #parts: Parts;
  readonly #tooSmall = boundedCache<string, true>(MAX_REMEMBERED);
  readonly #tooShort = boundedCache<string, true>(MAX_REMEMBERED);

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

  /** Checks that a price leaves enough time to be paid. */
  lastsLongEnough(job: JobKey, { endSecs }: Pick<JobPrice, "endSecs">): boolean {
    const { clock, logger } = this.#parts;
    if (endSecs === undefined || lastsLongEnough(endSecs, clock())) return true;
    const key = jobKeyText(job.serviceId, job.jobIndex);
    if (!this.#tooShort.has(key)) {
      this.#tooShort.set(key, true);
      logger.warn(
        { job: key, secsLeft: secsUntil(endSecs, clock()) },
        `the price ends in ${UNPAYABLE_SECS} s or less, too soon to be paid: the job is not offered at it`,
      );
    }
    return false;
  }

  /**
   * Returns a source of those prices that clients can pay in one of the tokens. Others mean that the job is not priced,
   * or, when they end too soon, not now.
   */
  payablePrices(source: PriceSource, tokens: PayableTokens): PriceSource {
    return {
      priceOf: async (job) => {
        const price = await source.priceOf(job);
        if (price === undefined || !this.hasAmount(job, price.priceWei, tokens.for(price))) return undefined;
        if (this.lastsLongEnough(job, price)) return price;
        throw endsTooSoon();
      },
    };
  }
}

/** Checks that a price that ends at a time in Unix seconds leaves enough time to be paid. */
export function lastsLongEnough(endSecs: number, nowMs: number): boolean {
  return secsUntil(endSecs, nowMs) > UNPAYABLE_SECS;
}

/** Refusal of a request for a job whose price ends too soon to be paid. */
export function endsTooSoon(): GatewayError {
  return priceUnavailable("its price ends too soon to be paid");
}
