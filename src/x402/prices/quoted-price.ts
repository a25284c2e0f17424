import type { Clock } from "../../core/clock.ts";
import type { JobKey } from "../../core/job-call.ts";
import { matchOffer } from "../wire/match-offer.ts";
import type { PriceTag } from "./price-tag.ts";
import type { QuoteBook } from "./quote-book.ts";

export interface QuotedPricesOptions {
  readonly quotes: QuoteBook;
  readonly clock: Clock;
}

/** Prices of signed quotes. A digest that is undefined is that of no quote. */
export interface QuotedPrices {
  /** The price of a quote: for its requester, for the body that it is for, once. */
  priceTag(digest: string | undefined, job: JobKey, body: Uint8Array): PriceTag;
  /**
   * Whether there is such a quote of this job.
   * @throws GatewayError `quote_not_found`, `quote_mismatch`
   */
  checkOpen(digest: string | undefined, job: JobKey): Promise<void>;
}

export function createQuotedPrices({ quotes, clock }: QuotedPricesOptions): QuotedPrices {
  return {
    checkOpen: quotes.checkOpen,
    priceTag: (digest, job, body) => ({
      async offers() {
        return (await quotes.redeem(digest, { job, body, payer: undefined })).offers;
      },

      async answeredBy(payment) {
        const { offers } = await quotes.redeem(digest, { job, body, payer: payment.from });
        return matchOffer(payment, offers, clock());
      },

      checkOpen: () => quotes.checkOpen(digest, job),

      receiptOf({ quoteDigest }) {
        if (quoteDigest === undefined) throw new Error("an offer of a quote has no digest");
        return { quoteDigest, receipt: quoteDigest };
      },
    }),
  };
}
