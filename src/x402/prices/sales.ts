import type { JobKey } from "../../core/job-call.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { JobCatalog, PurchasableJob } from "./job-catalog.ts";
import type { PriceTag } from "./price-tag.ts";
import type { QuotedPrices } from "./quoted-price.ts";

/** What one request wants to buy. */
export interface Sale {
  readonly job: PurchasableJob;
  readonly priceTag: (body: Uint8Array) => PriceTag;
}

/**
 * Finds what a request wants to buy: a job at its list price, or at that of a quote which it names.
 * @throws GatewayError `job_not_found`, `quote_not_found`, `quote_mismatch`, `x402_disabled`
 */
export type FindSale = (request: HttpRequest, job: JobKey) => Promise<Sale>;

export interface SalesOptions {
  readonly catalog: JobCatalog;
  readonly listPrice: (job: JobKey) => PriceTag;
  /** Absent: there is no pricing engine, and so a request cannot name a quote. */
  readonly quotedPrices?: QuotedPrices | undefined;
}

const QUOTE_HEADER = "x-x402-quote-digest";

export function createSales({ catalog, listPrice, quotedPrices }: SalesOptions): FindSale {
  return async (request, key) => {
    if (quotedPrices === undefined || request.headerValues(QUOTE_HEADER).length === 0) {
      return { job: await catalog.find(key), priceTag: () => listPrice(key) };
    }
    const digest = quoteDigestOf(request);
    const job = await catalog.findQuoted(key, () => quotedPrices.checkOpen(digest, key));
    return { job, priceTag: (body) => quotedPrices.priceTag(digest, key, body) };
  };
}

/** 64 lower-case hex digits; in the header they may be in either case, and have `0x`. */
function quoteDigestOf(request: HttpRequest): string | undefined {
  const [value = "", ...more] = request.headerValues(QUOTE_HEADER);
  const digest = /^(?:0x)?([0-9a-fA-F]{64})$/.exec(value)?.[1];
  return more.length > 0 ? undefined : digest?.toLowerCase();
}
