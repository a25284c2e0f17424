import type { HttpRequest } from "../http/http-request.ts";
import type { JobKey } from "../job-call.ts";
import type { Offer } from "./offer.ts";
import type { SignedPayment } from "./payment-header.ts";

/** What one request has to pay for a job: the list price, or that of a quote which it names. */
export interface PriceTag {
  /**
   * What a 402 shows.
   * @throws GatewayError when there is nothing to show
   */
  offers(): Promise<readonly Offer[]>;
  /**
   * The offer that a payment answers.
   * @throws GatewayError `payment_mismatch`, and whatever speaks against the price itself
   */
  answeredBy(payment: SignedPayment): Promise<Offer>;
  /** What stands for the purchase, once one of the offers is paid. */
  receiptOf(offer: Offer): Receipt;
}

export interface Receipt {
  /** The quote digest that the runner is told. */
  readonly quoteDigest: string;
  /** What the client asks for its call with: the quote digest. */
  readonly receipt: string;
  /** The same, if another payment has the quote digest already. */
  readonly spareReceipt?: string;
}

const QUOTE_HEADER = "x-x402-quote-digest";

/** Whether the request wants to pay a quote that it was given, instead of the list price. */
export function namesQuote(request: HttpRequest): boolean {
  return request.headerValues(QUOTE_HEADER).length > 0;
}

/** Finds what a request has to pay. */
export type PriceTags = (job: JobKey, request: HttpRequest, body: Uint8Array) => PriceTag;

export interface PriceTagOptions {
  readonly listPrice: (job: JobKey) => PriceTag;
  /** @param digest undefined: what the request names is no digest */
  readonly quotedPrice: (digest: string | undefined, job: JobKey, body: Uint8Array) => PriceTag;
}

export function createPriceTags({ listPrice, quotedPrice }: PriceTagOptions): PriceTags {
  return (job, request, body) =>
    namesQuote(request) ? quotedPrice(quoteDigestOf(request), job, body) : listPrice(job);
}

/** 64 lower-case hex digits; in the header they may be in either case, and have `0x`. */
function quoteDigestOf(request: HttpRequest): string | undefined {
  const [value = "", ...more] = request.headerValues(QUOTE_HEADER);
  const digest = /^(?:0x)?([0-9a-fA-F]{64})$/.exec(value)?.[1];
  return more.length > 0 ? undefined : digest?.toLowerCase();
}
