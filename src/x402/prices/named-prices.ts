import type { JobKey } from "../../core/job-call.ts";
import type { JobRequest } from "../../http/request.ts";
import type { Offer } from "../wire/offer.ts";
import type { JobPolicies } from "./job-policies.ts";
import type { Price } from "./price.ts";
import type { JobPrice } from "./price-source.ts";

/** Prices that requests name, in place of their jobs' prices. A part makes them. */
export interface NamedPrices {
  /**
   * Finds the price that a request names; undefined for a request that names none.
   * @throws GatewayError
   */
  find(request: JobRequest, job: JobKey): Promise<Price> | undefined;
}

/** Makes the prices that requests name at one configuration. */
export type MakeNamedPrices = (sale: SaleTerms) => NamedPrices;

/** Terms at which jobs are sold at one configuration, whatever their price is. */
export interface SaleTerms extends Pick<JobPolicies, "policyOf" | "requireEnabled"> {
  /** Returns the offers for a job at a price, one for each token that can take the price now. They are not saved. */
  offersAt(job: JobKey, price: JobPrice): readonly Offer[];
  /** Checks that a token may take a price, and that the price leaves enough time to be paid. Each failure is logged once for a job. */
  isPayable(job: JobKey, price: JobPrice): boolean;
  /** Returns the URL at which a job is bought. */
  urlOf(job: JobKey): string;
}
