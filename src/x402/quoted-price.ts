import type { Clock } from "../clock.ts";
import type { JobKey } from "../job-call.ts";
import { matchOffer } from "./payment-check.ts";
import type { PriceTag } from "./price-tag.ts";
import type { QuoteBook } from "./quote-book.ts";

export interface QuotedPriceOptions {
  readonly quotes: QuoteBook;
  readonly clock: Clock;
}

/** The price of a signed quote: for its requester, for the body that it is for, once. */
export function createQuotedPrice({ quotes, clock }: QuotedPriceOptions) {
  return (digest: string | undefined, job: JobKey, body: Uint8Array): PriceTag => ({
    async offers() {
      return (await quotes.redeem(digest, { job, body, payer: undefined })).offers;
    },

    async answeredBy(payment) {
      const { offers } = await quotes.redeem(digest, { job, body, payer: payment.from });
      return matchOffer(payment, offers, clock());
    },

    checkOpen: () => quotes.checkOpen(digest),

    receiptOf({ quoteDigest }) {
      if (quoteDigest === undefined) throw new Error("an offer of a quote has no digest");
      return { quoteDigest, receipt: quoteDigest };
    },
  });
}
