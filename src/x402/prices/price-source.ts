import { concat, keccak256, numberToHex } from "viem";
import type { Job } from "../../config/config.ts";
import type { RequestPricing } from "../../core/amounts.ts";
import { GatewayError } from "../../core/errors.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";

/** Price of one run of a job. */
export interface JobPrice {
  /** Amount in wei, or in 10^-18 of the currency if there is one. */
  readonly priceWei: bigint;
  readonly currency?: "USD";
  /** Digest that every purchase at the price has. Absent: each purchase has one of its own. */
  readonly digest?: string;
  /** Unix seconds at which the price ends. A price that ends in 7 s or less is not offered. Absent: it stays the price until the source returns another. */
  readonly endSecs?: number;
  /** The price is for a run in a trusted execution environment. */
  readonly confidentiality?: "tee";
  /** Set if the price depends on the request: then this price is its lowest. */
  readonly range?: RequestPricing;
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

/** Prices of the jobs that have one of their own, and of the rest from another source. */
export function createJobPrices(parts: {
  readonly jobs: readonly Job[];
  /** Source of the jobs whose price is the name of a source. Without it they have no price. */
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
  const packed = concat([
    numberToHex(job.serviceId, { size: 8 }),
    numberToHex(job.jobIndex, { size: 4 }),
    numberToHex(priceWei, { size: 32 }),
    numberToHex(offeredAtNs, { size: 16 }),
  ]);
  return keccak256(packed).slice(2);
}

/** Refusal of a request whose price cannot be known now. */
export function priceUnavailable(reason: string, cause?: unknown): GatewayError {
  return new GatewayError(
    "price_unavailable",
    `There is no price for this job now: ${reason}. Nothing was charged: ask again.`,
    { cause, headers: { "retry-after": "2" } },
  );
}
