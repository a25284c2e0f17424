import type { Clock } from "../../core/clock.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { JobRequest } from "../../http/request.ts";
import type { SignedPayment } from "../../x402/methods/method.ts";
import type { SoldPolicy } from "../../x402/prices/job-policies.ts";
import type { ConfirmedPrice, NamedPrices, Price, SaleTerms } from "../../x402/prices/price.ts";
import { matchOffer } from "../../x402/wire/match-offer.ts";
import type { Offer } from "../../x402/wire/offer.ts";
import type { QuoteBook } from "./quote-book.ts";

/** Request header that names a quote. */
export const QUOTE_HEADER = "X-X402-QUOTE-DIGEST";

interface Services {
  readonly quotes: QuoteBook;
  readonly clock: Clock;
}

/** The prices of the quotes that requests name, at one configuration. */
export class QuotedPrices implements NamedPrices {
  readonly #services: Services;
  readonly #sale: SaleTerms;

  constructor(services: Services, sale: SaleTerms) {
    this.#services = services;
    this.#sale = sale;
  }

  /** @throws GatewayError `x402_disabled`; for a disabled job, `quote_not_found` and `quote_mismatch` come first */
  find(request: JobRequest, job: JobKey): Promise<Price> | undefined {
    return request.headers[QUOTE_HEADER.toLowerCase()] === undefined
      ? undefined
      : this.#find(readQuoteDigest(request), job);
  }

  async #find(digest: string | undefined, job: JobKey): Promise<Price> {
    const sale = this.#sale;
    // A disabled job is confirmed only to clients with a quote. The quote of an enabled job is checked after body and payment.
    if (sale.policyOf(job).invocationMode === "disabled") await this.#services.quotes.checkOpen(digest, job);
    return new QuotedPrice(sale.requireEnabled(job), digest, this.#services);
  }
}

/** The price of a signed quote, which only its requester can pay, once, for the body that it was made for. */
class QuotedPrice implements Price {
  readonly policy: SoldPolicy;
  readonly isOfBody = true;
  /** Undefined when the request's header is malformed, so that it names no quote. */
  readonly #digest: string | undefined;
  readonly #services: Services;

  constructor(policy: SoldPolicy, digest: string | undefined, services: Services) {
    this.policy = policy;
    this.#digest = digest;
    this.#services = services;
  }

  async offers(body: Uint8Array): Promise<readonly Offer[]> {
    return this.#redeem(body, undefined);
  }

  async match(payment: SignedPayment, body: Uint8Array): Promise<Offer> {
    return matchOffer(payment, await this.#redeem(body, payment.from), this.#services.clock());
  }

  confirm(): Promise<ConfirmedPrice> {
    return this.#services.quotes.checkOpen(this.#digest, this.policy);
  }

  #redeem(body: Uint8Array, payer: string | undefined): Promise<readonly Offer[]> {
    return this.#services.quotes.redeem(this.#digest, { job: this.policy, body, payer });
  }
}

/** Returns the digest as 64 lower-case hex digits; the header can have either case, and an optional `0x`. */
function readQuoteDigest(request: JobRequest): string | undefined {
  const [value = "", ...more] = request.headerValues(QUOTE_HEADER.toLowerCase());
  const digest = /^(?:0x)?([0-9a-fA-F]{64})$/.exec(value)?.[1];
  return more.length > 0 ? undefined : digest?.toLowerCase();
}
