import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import { defined } from "../../core/objects.ts";
import type { FailurePromise } from "../../core/payment.ts";
import type { JobRequest } from "../../http/request.ts";
import type { Facilitators } from "../facilitators/facilitators.ts";
import type { SignedPayment } from "../methods/method.ts";
import type { Methods } from "../methods/methods.ts";
import type { ChainEvidence } from "../settlement/chain-evidence.ts";
import { matchOffer } from "../wire/match-offer.ts";
import { atTime, type Offer, type OfferTerms, schemeOf, secsUntil } from "../wire/offer.ts";
import type { JobChargeTerms, JobPolicies, SoldPolicy } from "./job-policies.ts";
import type { OfferBook, SealedOffers, Seals } from "./offer-book.ts";
import type { ConfirmedPrice, NamedPrices, Price } from "./price.ts";
import { type JobPrice, type PayableTokens, type PriceSource, priceUnavailable } from "./price-source.ts";
import {
  RequestPrice,
  type RequestPriceServices,
  type RequestPrices,
  RequestSeals,
} from "./request-prices.ts";

/** Sources of current prices, at one configuration. */
interface CurrentPrices {
  readonly prices: PriceSource;
  readonly offers: OfferBook;
  readonly tokens: PayableTokens;
  /** Undefined if every job is charged before it runs. */
  readonly chargeTerms?: JobChargeTerms;
  /** Promises that buyers may have for jobs that fail, the most valuable promise first. */
  readonly promises: readonly FailurePromise[];
  readonly quoteTtlSecs: number;
  readonly clock: Clock;
}

/** Prices of the jobs whose price depends on the request. */
export interface PricesOfRequests extends RequestPriceServices {
  /** Prices by `jobKeyText`. */
  readonly byJob: ReadonlyMap<string, RequestPrices>;
}

/** The prices of jobs, at one configuration. */
export class PriceBook {
  readonly #policies: JobPolicies;
  readonly #named: readonly NamedPrices[];
  readonly #ofRequests: PricesOfRequests;
  readonly #fresh: FreshOffers | undefined;
  readonly #current: CurrentPrices;

  constructor(
    parts: CurrentPrices & {
      readonly policies: JobPolicies;
      /** Prices that requests name. The first source that finds a price is used. */
      readonly named: readonly NamedPrices[];
      readonly ofRequests: PricesOfRequests;
      /** Undefined if no transfer method has fields that are made for one 402. */
      readonly fresh?: FreshOffers;
    },
  ) {
    const { policies, named, ofRequests, fresh, ...current } = parts;
    this.#fresh = fresh;
    this.#policies = policies;
    this.#named = named;
    this.#ofRequests = ofRequests;
    this.#current = current;
  }

  /**
   * Finds the price of a request.
   * @throws GatewayError `job_not_found`, `x402_disabled`, `price_unavailable`, or the reason why the price that the request
   *   names does not apply
   */
  async find(request: JobRequest, job: JobKey): Promise<Price> {
    const price = await this.#find(request, job);
    return this.#fresh?.in(price) ?? price;
  }

  async #find(request: JobRequest, job: JobKey): Promise<Price> {
    for (const prices of this.#named) {
      const named = prices.find(request, job);
      if (named !== undefined) return named;
    }
    return this.#findAsked(request, job) ?? this.#findCurrent(job, this.#sealsOf(request, job));
  }

  /** Finds the price of a request for a job whose price depends on the request; undefined for any other job. */
  #findAsked(request: JobRequest, job: JobKey): Price | undefined {
    const services = this.#ofRequests;
    const prices = this.#pricesOf(job);
    if (prices === undefined) return undefined;
    const policy = this.#policies.requireEnabled(job);
    const { offers, quoteTtlSecs, clock } = this.#current;
    const terms = {
      policy,
      ttlSecs: quoteTtlSecs,
      offersAt: (price: JobPrice) => offers.makeUnsaved(offerTerms(policy, price, this.#current)),
      findEarlier: () => offers.findOpen(policy),
      digestOf: (offer: Offer) => offers.newDigest(offer),
    };
    const seals = this.#sealsOf(request, job);
    return new RequestPrice({ ...services, request, prices, seals, terms, clock });
  }

  /**
   * Finds the current price of a job. If the price depends on the request, this is the lowest price, or the price of an empty request.
   * @throws GatewayError `job_not_found`, `x402_disabled`, `price_unavailable`
   */
  async findCurrent(job: JobKey): Promise<Price> {
    const price = await this.#findCurrent(job, undefined);
    return this.#fresh?.in(price) ?? price;
  }

  async #findCurrent(job: JobKey, seals: RequestSeals | undefined): Promise<Price> {
    const { policy, unavailable, range } = await this.#policies.find(job);
    const isShownOnly = this.#pricesOf(job) !== undefined;
    const { sealed } = this.#ofRequests;
    return new CurrentPrice(policy, this.#current, { unavailable, range, isShownOnly, sealed, seals });
  }

  #sealsOf(request: JobRequest, job: JobKey): RequestSeals {
    return new RequestSeals({ request, job, sealed: this.#ofRequests.sealed, clock: this.#current.clock });
  }

  #pricesOf({ serviceId, jobIndex }: JobKey): RequestPrices | undefined {
    return this.#ofRequests.byJob.get(jobKeyText(serviceId, jobIndex));
  }
}

/** Returns the terms of the offers for a job at a price. `ttlSecs` is 0 for a price that has ended. */
export function offerTerms(
  policy: SoldPolicy,
  price: JobPrice,
  at: Pick<CurrentPrices, "tokens" | "chargeTerms" | "quoteTtlSecs" | "clock">,
): OfferTerms {
  const { tokens, chargeTerms, quoteTtlSecs, clock } = at;
  const { serviceId, jobIndex, onFailure } = policy;
  const { extra, digest, endSecs, confidentiality } = price;
  const job = { serviceId, jobIndex };
  return {
    job,
    priceWei: price.priceWei,
    currency: price.currency,
    tokens: tokens.of(job).for(price, policy),
    onFailure,
    charge: chargeTerms?.of(job),
    ttlSecs: endSecs === undefined ? quoteTtlSecs : Math.min(quoteTtlSecs, secsUntil(endSecs, clock())),
    ...defined({ extra, digest, endSecs, confidentiality }),
  };
}

/** The price from the price source. Anyone can pay it now, or can pay an open offer with an earlier price. */
class CurrentPrice implements Price {
  readonly policy: SoldPolicy;
  readonly range: JobPrice["range"] | undefined;
  readonly #sources: CurrentPrices;
  /** True if the offers are only shown and cannot be paid, because each request has its own price. */
  readonly #isShownOnly: boolean;
  readonly #sealed: SealedOffers;
  /** Finds offers that were sealed before a reload gave the job one price; undefined if there is no request. */
  readonly #seals: RequestSeals | undefined;
  /** Set if the request has already waited for the price source without success, so that it does not wait again. */
  readonly #unavailable: GatewayError | undefined;

  constructor(
    policy: SoldPolicy,
    sources: CurrentPrices,
    found: {
      readonly unavailable: GatewayError | undefined;
      readonly range: JobPrice["range"] | undefined;
      readonly isShownOnly: boolean;
      readonly sealed: SealedOffers;
      readonly seals: RequestSeals | undefined;
    },
  ) {
    this.policy = policy;
    this.range = found.range;
    this.#isShownOnly = found.isShownOnly;
    this.#sealed = found.sealed;
    this.#seals = found.seals;
    this.#sources = sources;
    this.#unavailable = found.unavailable;
  }

  async offers(): Promise<readonly Offer[]> {
    if (this.#unavailable !== undefined) throw this.#unavailable;
    const { prices, offers } = this.#sources;
    const price = await prices.priceOf(this.policy);
    const terms = price && offerTerms(this.policy, price, this.#sources);
    const made = terms && (this.#isShownOnly ? offers.makeUnsaved(terms) : await offers.make(terms));
    if (made === undefined || made.length === 0) throw priceUnavailable("no token can be offered for it now");
    return this.#isShownOnly ? made.map((offer) => this.#sealed.sealForNone(offer)) : made;
  }

  /**
   * Finds the offer that a payment answers. If several offers match, this is the offer with the best promise, because
   * it may have been shown.
   */
  async match(payment: SignedPayment, body: Uint8Array): Promise<Offer> {
    const { offers, clock, promises } = this.#sources;
    const worth = (offer: Offer) => worthOf(offer, promises);
    const sealed = this.#seals?.find(payment, body);
    if (sealed !== undefined) return matchOffer(payment, [sealed], clock());
    const current = await this.offers().catch(noneWhileUnavailable);
    const matching = matchOffer(payment, current, clock());
    const matched = await matching.catch(() => undefined);
    if (matched !== undefined && worth(matched) >= promises.length) return matched;
    const open = await offers.findOpen(this.policy);
    const earlier = matched === undefined ? open : open.filter((offer) => worth(offer) > worth(matched));
    if (earlier.length === 0) return matching;
    return matchOffer(
      payment,
      [...current, ...earlier].sort((a, b) => worth(b) - worth(a)),
      clock(),
    );
  }

  /**
   * Refuses only an offer whose price has ended, because the lifetime of other offers only has to last until the paid
   * request arrives.
   */
  async confirm(offer: Offer): Promise<ConfirmedPrice> {
    if (atTime(offer, this.#sources.clock()) === undefined) {
      throw new GatewayError(
        "payment_mismatch",
        "The offer has ended with its quote. Nothing was charged: sign a new offer.",
      );
    }
    return { digest: offer.digest ?? this.#sources.offers.newDigest(offer) };
  }
}

/** Returns the worth of an offer to the buyer of a job that fails. An offer that charges nothing then is worth most. */
function worthOf({ onFailure, charge, chargesBack }: Offer, promises: readonly FailurePromise[]): number {
  if (charge !== undefined || chargesBack !== undefined) return promises.length + 1;
  const rank = promises.findIndex(({ name }) => name === onFailure);
  return rank < 0 ? 0 : promises.length - rank;
}

/** Returns no offers for an unavailable price, because earlier offers stay payable without the price. */
function noneWhileUnavailable(error: unknown): readonly Offer[] {
  if (error instanceof GatewayError && error.code === "price_unavailable") return [];
  throw error;
}

interface Parts {
  readonly methods: Pick<Methods, "find">;
  readonly facilitators: Pick<Facilitators, "extraOf">;
  readonly evidence: Pick<ChainEvidence, "connect">;
  readonly seals: Seals;
}

/** Completes offers with the fields that their transfer methods make for each 402. */
export class FreshOffers {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Returns a price whose offers are completed when they are shown. */
  in(price: Price): Price {
    const { policy, range, isOfBody } = price;
    return {
      ...{ policy, range, ...(isOfBody && { isOfBody }) },
      offers: async (body) => this.#complete(await price.offers(body)),
      match: async (payment, body) => {
        const offer = await price.match(payment, body);
        if (offer.charge !== undefined) this.#requireOwnEnd(payment);
        return offer;
      },
      confirm: (offer) => price.confirm(offer),
    };
  }

  /** Requires a known end of the payment, because the charge comes after the job. */
  #requireOwnEnd(payment: SignedPayment): void {
    const { fresh } = payment.method;
    if (fresh?.hasOwnEnd?.(payment, (text) => this.#parts.seals.seal(text)) !== false) return;
    throw new GatewayError(
      "payment_mismatch",
      `The ${fresh.keys.join(", ")} of the payment do not come from one 402, so the end of its offer is unknown. Nothing was charged: sign a payment for a new 402.`,
    );
  }

  /**
   * Leaves out offers that no facilitator is known to accept. Returns the same array if no offer needs completion.
   * @throws GatewayError `price_unavailable` when no offer is left
   */
  async #complete(offers: readonly Offer[]): Promise<readonly Offer[]> {
    const { methods } = this.#parts;
    const isFresh = ({ token }: Offer) => methods.find(token.transferMethod)?.fresh !== undefined;
    if (!offers.some(isFresh)) return offers;
    const complete = (await Promise.all(offers.map((offer) => this.#completed(offer)))).flat();
    if (complete.length === 0) throw priceUnavailable("no token can be offered for it now");
    return complete;
  }

  async #completed(offer: Offer): Promise<readonly Offer[]> {
    const { methods, facilitators, evidence, seals } = this.#parts;
    const { token, extra } = offer;
    const fresh = methods.find(token.transferMethod)?.fresh;
    if (fresh === undefined) return [offer];
    const kind = facilitators.extraOf({ x402Version: 2, scheme: schemeOf(offer), network: token.network });
    const connect = () => evidence.connect(token);
    const fields = kind && (await fresh.make({ kind, connect, seal: (text) => seals.seal(text) }));
    return fields === undefined ? [] : [{ ...offer, extra: { ...extra, ...fields } }];
  }
}
