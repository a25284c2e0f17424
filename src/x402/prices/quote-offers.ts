import type { AcceptedToken } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { JobQuote } from "../../pricing/job-quote.ts";
import type { QuotePayment, ReceivedQuote } from "../../pricing/quote-payment.ts";
import type { RateBoard } from "../../pricing/rates/rate-board.ts";
import { makeOffers, type Offer } from "../wire/offer.ts";
import { jobUrl } from "../wire/paths.ts";
import type { JobCatalog } from "./job-catalog.ts";
import type { QuoteBook } from "./quote-book.ts";

interface Parts {
  readonly catalog: JobCatalog;
  readonly quotes: QuoteBook;
  readonly rates: RateBoard;
  readonly tokens: readonly AcceptedToken[];
  readonly quoteTtlSecs: number;
  readonly publicUrl: string;
  readonly clock: Clock;
}

/** Makes offers for the quotes that pass through the pricing engine's service, at one configuration. */
export class QuoteOffers {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Returns the ways to pay a quote; undefined if its job is disabled or no token can be offered for its price now.
   * Saves a quote whose signature was checked first, which makes it payable. That includes the quote of a disabled
   * job, so that a request that names it is refused with the real reason.
   */
  async paymentFor(received: ReceivedQuote): Promise<QuotePayment | undefined> {
    const { catalog, quoteTtlSecs, publicUrl } = this.#parts;
    const { job, priceWei } = received;
    const offers = received.verified
      ? await this.#makePayable(received.quote)
      : this.#offers({ job, priceWei, ttlSecs: quoteTtlSecs });
    if (offers.length === 0 || catalog.policyOf(job).invocationMode === "disabled") return undefined;
    return { endpoint: jobUrl(publicUrl, job), options: offers.map(settlementOption) };
  }

  async #makePayable(quote: JobQuote): Promise<readonly Offer[]> {
    const { quotes, quoteTtlSecs, clock } = this.#parts;
    const { serviceId, jobIndex, priceWei, digest, expiry } = quote;
    const secsLeft = Number(expiry) - Math.floor(clock() / 1000);
    const ttlSecs = Math.max(1, Math.min(quoteTtlSecs, secsLeft));
    const offers = this.#offers({ job: { serviceId, jobIndex }, priceWei, quoteDigest: digest, ttlSecs });
    return offers.length === 0 ? [] : quotes.save(quote, offers);
  }

  #offers(terms: { job: JobKey; priceWei: bigint; quoteDigest?: string; ttlSecs: number }): Offer[] {
    const { tokens, rates } = this.#parts;
    return makeOffers({ ...terms, tokens }, rates);
  }
}

/** Returns what clients learn of an offer before they pay: token, amount and recipient. */
function settlementOption({ token, amount }: Offer): QuotePayment["options"][number] {
  return {
    network: token.network,
    asset: token.asset,
    symbol: token.symbol,
    amount,
    payTo: token.payTo,
    scheme: "exact",
  };
}
