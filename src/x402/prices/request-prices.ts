import { createHash } from "node:crypto";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { equalJobs, type JobKey } from "../../core/job-call.ts";
import { WorkLimit } from "../../http/limits.ts";
import type { JobRequest } from "../../http/request.ts";
import type { JobRoutes } from "../jobs/job-routes.ts";
import type { SignedPayment } from "../methods/method.ts";
import type { ClientLimits } from "../purchase/client-limits.ts";
import { bindRequest } from "../purchase/earlier-payments.ts";
import { matchOffer } from "../wire/match-offer.ts";
import { atTime, type Offer } from "../wire/offer.ts";
import type { SoldPolicy } from "./job-policies.ts";
import type { HashedParts, SealedOffers } from "./offer-book.ts";
import type { ConfirmedPrice, Price } from "./price.ts";
import { endsTooSoon, type JobPrice, lastsLongEnough, priceUnavailable } from "./price-source.ts";

/** A request whose price is needed. */
export interface AskedRequest extends Pick<JobRequest, "method" | "path" | "query" | "headerValues"> {
  /** Address of the client. */
  readonly client: string;
  /** Parameters of the path of the job's route, decoded. */
  readonly params: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
  /** Hash of everything that the request's price can depend on. */
  readonly hash: string;
}

/** Prices of the requests for one job. A part makes them. */
export interface RequestPrices {
  /** Lower-case names of the headers that prices depend on. Headers that describe the body are not listed. */
  readonly headers: readonly string[];
  /**
   * Returns the price of a request, which stays the same for a while. Offers with an earlier price stay open.
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
  /** Finds offers that are still open from the time when the job had one price for all requests. */
  findEarlier(): Promise<readonly Offer[]>;
  /** Returns a new digest for an offer. */
  digestOf(offer: Offer): string;
}

/** Services that the prices of all requests share. */
export interface RequestPriceServices {
  readonly routes: Pick<JobRoutes, "boundHeadersOf" | "paramsOf">;
  readonly limits: Pick<ClientLimits, "clientOf">;
  readonly sealed: SealedOffers;
}

interface Parts extends RequestPriceServices {
  readonly request: JobRequest;
  readonly prices: RequestPrices;
  readonly seals: RequestSeals;
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

  /** Returns the offer that the request's refused payment answers, while the offer is open; otherwise new offers. */
  async offers(body: Uint8Array): Promise<readonly Offer[]> {
    const { request, routes, prices, terms, sealed, clock } = this.#of;
    const paid = this.#paid && atTime(this.#paid, clock());
    if (paid !== undefined) return [paid];
    const { headers } = prices;
    const parts = { boundHeaders: routes.boundHeadersOf(request, this.policy), headers };
    const hash = hashOf(request, body, parts);
    const { offers, isOnlyShown } = await this.#offersNow(body, hash);
    const end = Math.ceil(clock() / 1000) + terms.ttlSecs;
    return offers.map((offer) => {
      const { endSecs = end } = offer;
      const whole = { ...offer, digest: digestOf(offer, terms), endSecs };
      return isOnlyShown ? sealed.sealForNone(whole) : sealed.seal(whole, parts, hash);
    });
  }

  /** Payments that name no sealed offer are matched with the current price of the request, and with earlier fixed offers. */
  async match(payment: SignedPayment, body: Uint8Array): Promise<Offer> {
    const { terms, seals, prices, clock } = this.#of;
    const sealed = seals.find(payment, body, prices.headers);
    if (sealed !== undefined) {
      this.#paid = sealed;
      return matchOffer(payment, [sealed], clock());
    }
    const { offers } = await this.#offersNow(body);
    return matchOffer(payment, [...offers, ...(await terms.findEarlier())], clock());
  }

  async confirm(offer: Offer): Promise<ConfirmedPrice> {
    const { terms, clock } = this.#of;
    if (atTime(offer, clock()) === undefined)
      throw new GatewayError(
        "payment_mismatch",
        "The offer for this request has ended. Nothing was charged: sign a new one.",
      );
    return { digest: digestOf(offer, terms) };
  }

  /** @param hash of the parts of the request that its price depends on, if it is known */
  async #offersNow(
    body: Uint8Array,
    hash?: string,
  ): Promise<{ offers: readonly Offer[]; isOnlyShown: boolean }> {
    const { prices, terms, clock } = this.#of;
    const price = await prices.priceOf(this.#asked(body, hash));
    if (price.endSecs !== undefined && !lastsLongEnough(price.endSecs, clock())) throw endsTooSoon();
    const offers = terms.offersAt(price);
    if (offers.length === 0) throw priceUnavailable("no token can be offered for it now");
    return { offers, isOnlyShown: price.isOnlyShown === true };
  }

  #asked(body: Uint8Array, hash?: string): AskedRequest {
    const { request, prices, routes, limits } = this.#of;
    const { method, path, query } = request;
    const boundHeaders = routes.boundHeadersOf(request, this.policy);
    return {
      ...{ method, path, query, body },
      client: limits.clientOf(request),
      headerValues: (name) => request.headerValues(name),
      params: routes.paramsOf(request),
      hash: hash ?? hashOf(request, body, { boundHeaders, headers: prices.headers }),
    };
  }
}

/** Finds a sealed offer in the payment of a request. A sealed offer stays payable when the job's price changes. */
export class RequestSeals {
  readonly #of: {
    readonly request: JobRequest;
    readonly job: JobKey;
    readonly sealed: SealedOffers;
    readonly clock: Clock;
  };

  constructor(of: {
    readonly request: JobRequest;
    readonly job: JobKey;
    readonly sealed: SealedOffers;
    /** Wall clock. */
    readonly clock: Clock;
  }) {
    this.#of = of;
  }

  /**
   * Returns the sealed offer that a payment answers; undefined for a payment of an unsealed offer.
   * @param headersNow names of the headers that the price depends on now. A request must not have headers among them that
   *   its offer does not cover
   * @throws GatewayError `payment_mismatch` when it is for another request, or has ended
   */
  find(payment: SignedPayment, body: Uint8Array, headersNow: readonly string[] = []): Offer | undefined {
    const { request, job, sealed, clock } = this.#of;
    const found = sealed.open(payment.accepted?.extra, (parts) => {
      const isCovered = (name: string) =>
        parts.headers.includes(name) || request.headerValues(name).length === 0;
      return headersNow.every(isCovered) ? hashOf(request, body, parts) : undefined;
    });
    if (found === "none") return undefined;
    if (found === undefined || !equalJobs(found.job, job))
      throw mismatch("The offer is for another request: its price is for the request that asked for it.");
    const offer = atTime(found, clock());
    if (offer === undefined) throw mismatch("The offer for this request has ended.");
    return offer;
  }
}

/** Hashes everything that the price of a request can depend on. */
function hashOf(request: JobRequest, body: Uint8Array, { boundHeaders, headers }: HashedParts): string {
  const { bodyHash } = bindRequest(request, body, boundHeaders);
  const values = [...OF_BODY, ...headers].map(
    (name) => `${name}: ${JSON.stringify(request.headerValues(name))}`,
  );
  return createHash("sha256")
    .update([bodyHash, ...values].join("\n"))
    .digest("hex");
}

function digestOf(offer: Offer, terms: Pick<SaleTerms, "digestOf">): string {
  return offer.digest ?? terms.digestOf(offer);
}

function mismatch(sentence: string): GatewayError {
  return new GatewayError("payment_mismatch", `${sentence} Nothing was charged: sign one of these offers.`);
}

/** Maximum number of kept prices. The price of an evicted request is queried again. */
const MAX_PRICES = 10_000;

/** Bounds on the price queries in progress. */
export const QUESTIONS = {
  perClient: 8,
  total: 64,
  reason: "Too many price requests are in progress. Nothing was charged",
};

/** An answer to a price query. */
interface Answer {
  readonly price: JobPrice;
  /** Unix milliseconds after which the price is queried anew. */
  readonly endsAt: number;
}

/** A price query, with its answer once that has arrived. */
interface KeptPrice {
  readonly price: Promise<JobPrice>;
  endsAt: number | undefined;
}

/** Prices of requests from another program. Each price is kept until it ends. */
export class KeptPrices {
  readonly #clock: Clock;
  readonly #limit = new WorkLimit();
  readonly #kept = boundedCache<string, KeptPrice>(MAX_PRICES);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Returns the price of a request. Equal requests share one query.
   * @param id distinguishes the programs that are queried
   * @throws GatewayError `rate_limited`, or the error of `ask`
   */
  find(id: string, asked: AskedRequest, ask: () => Promise<Answer>): Promise<JobPrice> {
    const key = `${id}\n${asked.hash}`;
    const kept = this.#kept.get(key);
    if (kept !== undefined && (kept.endsAt === undefined || this.#clock() < kept.endsAt)) return kept.price;
    const answer = this.#limit.run(asked.client, QUESTIONS, ask);
    const asking: KeptPrice = { price: answer.then(({ price }) => price), endsAt: undefined };
    this.#kept.set(key, asking);
    answer.then(
      ({ endsAt }) => {
        asking.endsAt = endsAt;
      },
      () => {
        if (this.#kept.peek(key) === asking) this.#kept.delete(key);
      },
    );
    return asking.price;
  }
}
