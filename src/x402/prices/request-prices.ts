import { createHash } from "node:crypto";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { equalJobs } from "../../core/job-call.ts";
import type { JobRequest } from "../../http/request.ts";
import type { JobRoutes } from "../jobs/job-routes.ts";
import type { SignedPayment } from "../methods/method.ts";
import type { ClientLimits } from "../purchase/client-limits.ts";
import { bindRequest } from "../purchase/request-binding.ts";
import { matchOffer } from "../wire/match-offer.ts";
import { atTime, type Offer } from "../wire/offer.ts";
import type { SoldPolicy } from "./job-policies.ts";
import type { ConfirmedPrice, Price } from "./price.ts";
import { type JobPrice, priceUnavailable } from "./price-source.ts";
import type { SealedOffers } from "./sealed-offers.ts";

/** A request whose price is asked for. */
export interface AskedRequest extends Pick<JobRequest, "method" | "path" | "query" | "headerValues"> {
  /** Address of the client. */
  readonly client: string;
  /** Parameters of the path of the job's route, decoded. */
  readonly params: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
  /** Hash of everything that its price can depend on. */
  readonly hash: string;
}

/** Prices of the requests for one job. A part makes them. */
export interface RequestPrices {
  /** Headers that prices depend on besides those of the body, in lower case. */
  readonly headers: readonly string[];
  /**
   * Returns the price of a request, which is the same for a while. Offers that were made at another price stay open.
   * @throws GatewayError the reason why the request has no price
   */
  priceOf(asked: AskedRequest): Promise<JobPrice>;
}

/** Terms at which the requests for a job are sold now. */
interface SaleTerms {
  readonly policy: SoldPolicy;
  readonly ttlSecs: number;
  /** Returns the offers at a price, which are not saved. */
  offersAt(price: JobPrice): readonly Offer[];
  /** Finds the offers that are still open, of the time when the job had one price for all requests. */
  findEarlier(): Promise<readonly Offer[]>;
  /** Returns a new digest for an offer. */
  digestOf(offer: Offer): string;
}

/** What the prices of all requests need. */
export interface RequestPriceServices {
  readonly routes: Pick<JobRoutes, "boundHeadersOf" | "paramsOf">;
  readonly limits: Pick<ClientLimits, "clientOf">;
  readonly sealed: SealedOffers;
}

interface Parts extends RequestPriceServices {
  readonly request: JobRequest;
  readonly prices: RequestPrices;
  readonly terms: SaleTerms;
  readonly clock: Clock;
}

/** Headers that can change what a body means. */
const OF_BODY = ["content-encoding", "content-type"];

/** The price of one request for a job whose price depends on the request. */
export class RequestPrice implements Price {
  readonly policy: SoldPolicy;
  readonly isOfBody = true;
  readonly #of: Parts;
  /** Offer that the request's payment answers. */
  #paid: Offer | undefined;

  constructor(of: Parts) {
    this.policy = of.terms.policy;
    this.#of = of;
  }

  /** A request whose payment is refused gets its offer again, while that is open: nobody is asked for another price. */
  async offers(body: Uint8Array): Promise<readonly Offer[]> {
    const { terms, sealed, clock } = this.#of;
    const paid = this.#paid && atTime(this.#paid, clock());
    if (paid !== undefined) return [paid];
    const asked = this.#asked(body);
    const offers = await this.#offersNow(asked);
    const end = Math.ceil(clock() / 1000) + terms.ttlSecs;
    return offers.map((offer) => {
      const { quoteExpiry = end } = offer;
      return sealed.seal({ ...offer, quoteDigest: digestOf(offer, terms), quoteExpiry }, asked.hash);
    });
  }

  /** Clients of v1 echo no offer: their payments are matched with the price of the request now, and with earlier fixed offers. */
  async match(payment: SignedPayment, body: Uint8Array): Promise<Offer> {
    const { terms, sealed, clock } = this.#of;
    const asked = this.#asked(body);
    const found = sealed.open(payment.accepted?.extra, asked.hash);
    if (found === "none") {
      const offers = [...(await this.#offersNow(asked)), ...(await terms.findEarlier())];
      return matchOffer(payment, offers, clock());
    }
    if (found === undefined || !equalJobs(found.job, terms.policy))
      throw mismatch("The offer is for another request: its price is for the request that asked for it.");
    const now = clock();
    const offer = atTime(found, now);
    if (offer === undefined) throw mismatch("The offer for this request has ended.");
    this.#paid = found;
    return matchOffer(payment, [offer], now);
  }

  async confirm(offer: Offer): Promise<ConfirmedPrice> {
    const { terms, clock } = this.#of;
    if (atTime(offer, clock()) === undefined)
      throw new GatewayError(
        "payment_mismatch",
        "The offer for this request has ended. Nothing was charged: sign a new one.",
      );
    return { quoteDigest: digestOf(offer, terms) };
  }

  async #offersNow(asked: AskedRequest): Promise<readonly Offer[]> {
    const { prices, terms } = this.#of;
    const offers = terms.offersAt(await prices.priceOf(asked));
    if (offers.length === 0) throw priceUnavailable("no token can be asked for it now");
    return offers;
  }

  #asked(body: Uint8Array): AskedRequest {
    const { request, prices, routes, limits } = this.#of;
    const { method, path, query } = request;
    const { bodyHash } = bindRequest(request, body, routes.boundHeadersOf(request, this.policy));
    const headers = [...OF_BODY, ...prices.headers].map(
      (name) => `${name}: ${JSON.stringify(request.headerValues(name))}`,
    );
    const hash = createHash("sha256").update([bodyHash, ...headers].join("\n"));
    return {
      ...{ method, path, query, body },
      client: limits.clientOf(request),
      headerValues: (name) => request.headerValues(name),
      params: routes.paramsOf(request),
      hash: hash.digest("hex"),
    };
  }
}

function digestOf(offer: Offer, terms: Pick<SaleTerms, "digestOf">): string {
  return offer.quoteDigest ?? terms.digestOf(offer);
}

function mismatch(sentence: string): GatewayError {
  return new GatewayError("payment_mismatch", `${sentence} Nothing was charged: sign one of these offers.`);
}
