import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { PriceSource } from "../../pricing/price-map.ts";
import { priceUnavailable } from "../../pricing/price-unavailable.ts";
import { quoteDigest } from "../../pricing/quote-digest.ts";
import { matchOffer } from "../wire/match-offer.ts";
import type { Offer, PricedToken } from "../wire/offer.ts";
import type { OfferBook } from "./offer-book.ts";
import type { OfferTime } from "./offer-time.ts";
import type { PriceTag } from "./price-tag.ts";

export interface ListPriceOptions {
  readonly prices: PriceSource;
  /** The tokens that have a rate now. */
  readonly pricedTokens: () => readonly PricedToken[];
  readonly quoteTtlSecs: number;
  readonly offers: OfferBook;
  readonly offerTime: OfferTime;
  readonly clock: Clock;
}

/** The price that everyone pays: what the price source says now, or said when it was offered. */
export function createListPrice(options: ListPriceOptions) {
  const { prices, pricedTokens, quoteTtlSecs, offers, offerTime, clock } = options;

  async function offersOf(job: JobKey): Promise<readonly Offer[]> {
    const price = await prices.priceOf(job);
    const made =
      price &&
      (await offers.make({
        job,
        priceWei: price.priceWei,
        ...(price.quote === undefined ? {} : { quoteDigest: price.quote.digest }),
        tokens: pricedTokens(),
        ttlSecs: quoteTtlSecs,
      }));
    if (made === undefined || made.length === 0) throw priceUnavailable("no token can be asked for it now");
    return made;
  }

  return (job: JobKey): PriceTag => ({
    offers: () => offersOf(job),

    async answeredBy(payment) {
      const now = await offersOf(job).catch(unlessUnavailable);
      try {
        return await matchOffer(payment, now, clock());
      } catch (error) {
        const before = await offers.madeBefore(job);
        if (before.length === 0) throw error;
        return matchOffer(payment, [...now, ...before], clock());
      }
    },

    // An offer is honoured for its time, which counts to the request that answers it.
    checkOpen: async () => {},

    receiptOf({ priceWei, quoteDigest: digest }) {
      const own = quoteDigest(job, priceWei, offerTime());
      // Many may buy at one quote, but what a client asks for its call with is its own.
      return digest === undefined
        ? { quoteDigest: own, receipt: own }
        : { quoteDigest: digest, receipt: digest, spareReceipt: own };
    },
  });
}

/** What was offered before counts while nobody can say what the job costs now. */
function unlessUnavailable(error: unknown): readonly Offer[] {
  if (error instanceof GatewayError && error.code === "price_unavailable") return [];
  throw error;
}
