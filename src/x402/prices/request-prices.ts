import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import type { JobRequest } from "../../http/request.ts";
import type { JobRoutes } from "../jobs/job-routes.ts";
import type { SignedPayment } from "../methods/method.ts";
import { bindRequest } from "../purchase/request-binding.ts";
import { atTime, type Offer } from "../wire/offer.ts";
import type { SoldPolicy } from "./job-policies.ts";
import type { ConfirmedPrice, Price } from "./price.ts";
import type { JobPrice } from "./price-source.ts";

/** A request whose price is asked for. */
export interface AskedRequest extends Pick<JobRequest, "method" | "query" | "headerValues"> {
  /** Path as it was received, without the query. */
  readonly path: string;
  /** Parameters of the path of the job's route, decoded. */
  readonly params: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
  /** Hash of what a payment for the request is bound to. */
  readonly hash: string;
}

/** Terms at which the requests for a job are sold now. */
export interface SaleTerms {
  readonly policy: SoldPolicy;
  readonly ttlSecs: number;
  /** Returns the offers at a price, which are not saved. */
  offersAt(price: JobPrice): readonly Offer[];
  /** Finds the offers that are still open, of the time when the job had one price for all requests. */
  findEarlier(): Promise<readonly Offer[]>;
  /** Returns a new digest for an offer. */
  digestOf(offer: Offer): string;
}

/** Prices of the requests for one job. A part makes them. */
export interface RequestPrices {
  /** Returns the offers for a request. @throws GatewayError the reason why the request has no price */
  offers(asked: AskedRequest, terms: SaleTerms): Promise<readonly Offer[]>;
  /** Returns the offer that a payment for a request answers. @throws GatewayError `payment_mismatch` */
  match(payment: SignedPayment, asked: AskedRequest, terms: SaleTerms): Promise<Offer>;
}

interface Parts {
  readonly request: JobRequest;
  readonly prices: RequestPrices;
  readonly routes: Pick<JobRoutes, "boundHeadersOf" | "paramsOf">;
  readonly terms: SaleTerms;
  readonly clock: Clock;
}

/** The price of one request for a job whose price depends on the request. */
export class RequestPrice implements Price {
  readonly policy: SoldPolicy;
  readonly isOfBody = true;
  readonly #of: Parts;

  constructor(of: Parts) {
    this.policy = of.terms.policy;
    this.#of = of;
  }

  offers(body: Uint8Array): Promise<readonly Offer[]> {
    const { prices, terms } = this.#of;
    return prices.offers(this.#asked(body), terms);
  }

  match(payment: SignedPayment, body: Uint8Array): Promise<Offer> {
    const { prices, terms } = this.#of;
    return prices.match(payment, this.#asked(body), terms);
  }

  async confirm(offer: Offer): Promise<ConfirmedPrice> {
    const { terms, clock } = this.#of;
    if (atTime(offer, clock()) === undefined) {
      throw new GatewayError(
        "payment_mismatch",
        "The offer for this request has ended. Nothing was charged: sign a new one.",
      );
    }
    return { quoteDigest: offer.quoteDigest ?? terms.digestOf(offer) };
  }

  #asked(body: Uint8Array): AskedRequest {
    const { request, routes } = this.#of;
    const { method, path, query } = request;
    const { bodyHash: hash } = bindRequest(request, body, routes.boundHeadersOf(request, this.policy));
    return {
      method,
      path,
      query,
      headerValues: (name) => request.headerValues(name),
      params: routes.paramsOf(request),
      body,
      hash,
    };
  }
}
