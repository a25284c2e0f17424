import type { Logger } from "pino";
import { isEvm } from "../../chain/chain-client.ts";
import { keccak256 } from "../../chain/keccak.ts";
import { type AcceptedToken, isSoldIn, type Job, type JobPolicy } from "../../config/config.ts";
import type { RequestPricing } from "../../core/amounts.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import { amountIn, isPayable, secsUntil } from "../wire/offer.ts";
import type { TokenRates } from "./token-rates.ts";

/** Price of one run of a job. */
export interface JobPrice {
  /** Amount in wei, or in 10^-18 of the currency if there is one. */
  readonly priceWei: bigint;
  readonly currency?: "USD";
  /** Digest that every purchase at the price has. Undefined if each purchase has its own digest. */
  readonly digest?: string;
  /**
   * Unix seconds at which the price ends. A price that ends in 7 s or less is not offered. Undefined if the price is valid
   * until the source returns another price.
   */
  readonly endSecs?: number;
  /** The price is for a run in a trusted execution environment. */
  readonly confidentiality?: "tee";
  /** Set if the price depends on the request, so that this price is the lowest. */
  readonly range?: RequestPricing;
  /** True if the price is only shown, and the request cannot be bought at it. */
  readonly isOnlyShown?: boolean;
  /** Further fields of the `extra` of its offers. */
  readonly extra?: Readonly<Record<string, string>>;
}

/** Source of prices: the jobs' own prices, the operator's map, or a part. */
export interface PriceSource {
  /**
   * Returns the price of a job; undefined when the job is not priced, and so cannot be bought.
   * @throws GatewayError `price_unavailable`, with `retry-after`, when the price cannot be known now
   */
  priceOf(job: JobKey): Promise<JobPrice | undefined>;
}

/** Prices from `[job_pricing]`, by `service/job`. */
export function createPriceMap(jobPricing: ReadonlyMap<string, bigint>): PriceSource {
  return {
    async priceOf({ serviceId, jobIndex }) {
      const priceWei = jobPricing.get(jobKeyText(serviceId, jobIndex));
      return priceWei === undefined ? undefined : { priceWei };
    },
  };
}

/** Prices of the jobs that configure a price. Other jobs' prices come from another source. */
export function createJobPrices(parts: {
  readonly jobs: readonly Job[];
  /** Price source for jobs whose `price` names a source. If undefined, such jobs have no price. */
  readonly named: PriceSource | undefined;
  readonly otherwise: PriceSource;
}): PriceSource {
  const { jobs, named, otherwise } = parts;
  const own = new Map(
    jobs.flatMap(({ serviceId, jobIndex, price }) =>
      price === undefined ? [] : [[jobKeyText(serviceId, jobIndex), price] as const],
    ),
  );
  if (own.size === 0) return otherwise;
  return {
    async priceOf(job) {
      const price = own.get(jobKeyText(job.serviceId, job.jobIndex));
      if (price === undefined) return otherwise.priceOf(job);
      if (typeof price === "string") return named?.priceOf(job);
      if ("from" in price) return { priceWei: price.from.amount, currency: "USD", range: price };
      const { unit, amount: priceWei } = price;
      return unit === "usd" ? { priceWei, currency: "USD" } : { priceWei };
    },
  };
}

/**
 * Digest of an offer at a mapped price: keccak-256 of service_id u64 BE, job_index u32 BE, price_wei 32 bytes BE, offer
 * time in Unix nanoseconds u128 BE.
 * @returns 64 lower-case hex digits, without `0x`
 */
export function offerDigest(job: JobKey, priceWei: bigint, offeredAtNs: bigint): string {
  const hex = (value: bigint | number, bytes: number) => value.toString(16).padStart(2 * bytes, "0");
  const packed = hex(job.serviceId, 8) + hex(job.jobIndex, 4) + hex(priceWei, 32) + hex(offeredAtNs, 16);
  return keccak256(Buffer.from(packed, "hex")).slice(2);
}

/** Refusal of a request whose price cannot be known now. */
export function priceUnavailable(reason: string, cause?: unknown): GatewayError {
  return new GatewayError(
    "price_unavailable",
    `There is no price for this job now: ${reason}. Nothing was charged: ask again.`,
    { cause, headers: { "retry-after": "2" } },
  );
}

/** The accepted tokens, selected by the job that is sold in them and by the price that they can be offered for. */
export class PayableTokens {
  /** Tokens of the jobs that are sold in other tokens than the remaining jobs, by job. */
  readonly #ofJobs: ReadonlyMap<string, PayableTokens>;
  /** Tokens with a rate. */
  readonly forWei: readonly AcceptedToken[];
  readonly #forUsd: readonly AcceptedToken[];
  /** The tokens whose payers can be callers. */
  readonly #ofCallers: PayableTokens;

  /** @param jobs jobs that tokens may name */
  constructor(accepted: readonly AcceptedToken[], jobs: readonly Job[] = []) {
    this.#ofJobs = new Map(
      jobs.flatMap(({ serviceId, jobIndex, name }) => {
        if (!accepted.some((token) => name !== undefined && token.jobs?.includes(name))) return [];
        const own = accepted.filter((token) => isSoldIn(token, name, accepted));
        const tokens = own.map(({ jobs: _, ...token }) => token);
        return [[jobKeyText(serviceId, jobIndex), new PayableTokens(tokens)] as const];
      }),
    );
    const tokens = accepted.filter((token) => isSoldIn(token, undefined, accepted));
    this.forWei = tokens.filter(({ rate }) => rate !== undefined);
    this.#forUsd = tokens
      .filter(({ currency }) => currency === "USD")
      .map((token) => ({ ...token, rate: { kind: "fixed", ratePerNativeUnit: "1" } }));
    // Restricted jobs are sold only on EVM chains, because the contract that permits callers knows only accounts of EVM chains.
    const ofCallers = tokens.filter(({ network }) => isEvm(network));
    this.#ofCallers = ofCallers.length === tokens.length ? this : new PayableTokens(ofCallers);
  }

  /** Returns the tokens that a job is sold in. */
  of({ serviceId, jobIndex }: JobKey): PayableTokens {
    return this.#ofJobs.get(jobKeyText(serviceId, jobIndex)) ?? this;
  }

  /**
   * Returns the tokens for a price, always in the same array. For a price in dollars, the tokens' rate is one token for
   * one dollar. The price is in 10^-18 dollars, so amounts are computed as for wei.
   * @param policy policy of the job; a restricted job is sold in the tokens of callers
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

  /** Checks that a token can have the price. A token without a rate may have it later. */
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
        `the price ends in ${UNPAYABLE_SECS} s or less, too soon to be paid: the job is not offered at this price`,
      );
    }
    return false;
  }

  /**
   * Returns a source of the prices that clients can pay in one of the tokens. A job whose price cannot be paid is not
   * for sale. A job whose price ends too soon is not for sale now.
   */
  payablePrices(source: PriceSource, tokens: PayableTokens): PriceSource {
    return {
      priceOf: async (job) => {
        const price = await source.priceOf(job);
        if (price === undefined || !this.hasAmount(job, price.priceWei, tokens.of(job).for(price)))
          return undefined;
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
