import type { RequestPricing } from "../../core/amounts.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { JobRequest } from "../../http/request.ts";
import type { SignedPayment } from "../methods/method.ts";
import type { PurchaseNonce } from "../settlement/settlement.ts";
import type { Offer } from "../wire/offer.ts";
import type { JobPolicies, SoldPolicy } from "./job-policies.ts";
import type { JobPrice } from "./price-source.ts";

/** The price of one request for a job: the job's current price, a price for this request, or a price that the request names. */
export interface Price {
  readonly policy: SoldPolicy;
  /** Set if the offers are at the lowest price of a job whose price depends on the request. */
  readonly range?: RequestPricing | undefined;
  /** Set if the offers are for one body. */
  readonly isOfBody?: true;
  /**
   * Returns the offers to show in a 402.
   * @throws GatewayError when there is nothing to offer
   */
  offers(body: Uint8Array): Promise<readonly Offer[]>;
  /**
   * Returns the offer that a payment answers.
   * @throws GatewayError `payment_mismatch`, or the reason why the price does not apply
   */
  match(payment: SignedPayment, body: Uint8Array): Promise<Offer>;
  /**
   * Confirms a matched offer just before money moves, because the checks since the match take time.
   * @throws GatewayError when the price no longer applies
   */
  confirm(offer: Offer): Promise<ConfirmedPrice>;
}

/** The price at which money is about to move. */
export interface ConfirmedPrice {
  /** Digest that identifies the price to the runner. It is also the client's receipt. */
  readonly digest: string;
  /** A nonce that is used up with a price that can be paid once. */
  readonly nonce?: PurchaseNonce;
}

/** Prices that requests name, in place of their jobs' prices. A part makes them. */
export interface NamedPrices {
  /**
   * Finds the price that a request names; undefined for a request that names no price.
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
