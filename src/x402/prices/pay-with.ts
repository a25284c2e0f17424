import type { X402Config } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { JobQuote } from "../../pricing/job-quote.ts";
import type { PayWith, QuotePayment } from "../../pricing/quote-payment.ts";
import type { RateBoard } from "../../pricing/rates/rate-board.ts";
import { resourceUrl } from "../routes.ts";
import { makeOffers, type Offer } from "../wire/offer.ts";
import { createJobPolicies } from "./job-catalog.ts";
import { pricedTokens } from "./priced-tokens.ts";
import type { QuoteBook } from "./quote-book.ts";

export interface PayWithOptions {
  readonly config: X402Config;
  readonly rates: RateBoard;
  readonly quotes: QuoteBook;
  readonly clock: Clock;
}

/**
 * How a quote of the pricing engine can be paid here; undefined when it cannot: its job is not for sale over x402, or
 * no token can be asked for its price now. A quote that was checked is written down first, and can be redeemed from
 * then on; also that of a job which is not for sale, so that whoever names it is told so.
 */
export function createPayWith({ config, rates, quotes, clock }: PayWithOptions): PayWith {
  const policyOf = createJobPolicies(config);

  function offersAt(priceWei: bigint, job: JobKey, more: { quoteDigest?: string; ttlSecs: number }): Offer[] {
    return makeOffers({ job, priceWei, tokens: pricedTokens(config.acceptedTokens, rates), ...more });
  }

  async function redeemable(quote: JobQuote): Promise<readonly Offer[]> {
    const { priceWei, digest, expiry, serviceId, jobIndex } = quote;
    const secsLeft = Number(expiry) - Math.floor(clock() / 1000);
    const ttlSecs = Math.max(1, Math.min(config.quoteTtlSecs, secsLeft));
    const offers = offersAt(priceWei, { serviceId, jobIndex }, { quoteDigest: digest, ttlSecs });
    return offers.length === 0 ? [] : quotes.give(quote, offers);
  }

  return async (received) => {
    const { job, priceWei } = received;
    const offers = received.verified
      ? await redeemable(received.quote)
      : offersAt(priceWei, job, { ttlSecs: config.quoteTtlSecs });
    if (offers.length === 0 || policyOf(job).invocationMode === "disabled") return undefined;
    return toPayment(offers, resourceUrl(config, job));
  };
}

function toPayment(offers: readonly Offer[], endpoint: string): QuotePayment {
  return {
    endpoint,
    options: offers.map(({ token, amount }) => ({
      network: token.network,
      asset: token.asset,
      symbol: token.symbol,
      amount,
      payTo: token.payTo,
      scheme: "exact",
    })),
  };
}
