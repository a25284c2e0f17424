import type { JobKey } from "../core/job-call.ts";
import { jobKeyText } from "../core/job-call.ts";
import type { JobQuote } from "./job-quote.ts";

/** What one run of a job costs. */
export interface JobPrice {
  readonly priceWei: bigint;
  /** The operator's signed quote that the price is from; a mapped price has none. */
  readonly quote?: JobQuote;
}

/** Where prices come from: the operator's map, or the pricing engine. */
export interface PriceSource {
  /**
   * Undefined: the job is not priced, and so cannot be bought.
   * @throws GatewayError `price_unavailable`, with `retry-after`, when nobody can say now what the job costs
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
