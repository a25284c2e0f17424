import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { equalJobs, type JobKey } from "../../core/job-call.ts";
import type { SaleTerms } from "../../x402/prices/price.ts";
import { lastsLongEnough } from "../../x402/prices/price-source.ts";
import type { PurchaseNonce } from "../../x402/settlement/settlement.ts";
import { atTime, formatOffer, type Offer, parseOffer, schemeOf } from "../../x402/wire/offer.ts";
import { toPrice } from "./job-quote.ts";
import type { JobQuote, QuotePayment, ReceivedQuote } from "./quotes.ts";
import type { QuoteLedger } from "./store/ledger.ts";
import { nonceOfQuote } from "./store/module.ts";

/** A quote as the store keeps it. */
interface SavedQuote {
  readonly digest: string;
  readonly job: JobKey;
  /** Address that asked for the quote and has to pay it, lower case. */
  readonly requester: string;
  /** Keccak-256 of the body that the quote is for, with `0x`. */
  readonly inputsHash: string;
  /** Offers that the requester was shown. */
  readonly offers: readonly Offer[];
}

interface Parts {
  readonly ledger: QuoteLedger;
  readonly clock: Clock;
}

/** The pricing engine's signed quotes that passed through this gateway, kept until they expire. */
export class QuoteBook {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Returns the ways to pay a quote; undefined if its job is disabled, no token can be offered for its price now, or it
   * ends too soon. Saves a quote whose signature was checked first, even if it is not offered, so that a request that
   * names it is refused with the real reason.
   * @param sale terms of the current configuration
   */
  async paymentFor(received: ReceivedQuote, sale: SaleTerms): Promise<QuotePayment | undefined> {
    const { job, priceWei } = received;
    const price = received.verified ? toPrice(received.quote) : { priceWei };
    let offers = sale.offersAt(job, price);
    if (received.verified && offers.length > 0) {
      const lasting = offers.map((offer) => ({ ...offer, ttlSecs: Math.max(1, offer.ttlSecs) }));
      offers = await this.#save(received.quote, lasting);
    }
    if (sale.policyOf(job).invocationMode === "disabled") return undefined;
    if (!sale.isPayable(job, price) || offers.length === 0) return undefined;
    return {
      endpoint: sale.urlOf(job),
      options: offers.map((offer) => {
        const { token, amount } = offer;
        const { network, asset, symbol, payTo } = token;
        return { network, asset, symbol, amount, payTo, scheme: schemeOf(offer) };
      }),
    };
  }

  /** Saves a quote with its offers. @returns the offers; if the quote was saved before, the offers of the first time */
  async #save(quote: JobQuote, offers: readonly Offer[]): Promise<readonly Offer[]> {
    const { digest, serviceId, jobIndex, requester, inputsHash, expiry } = quote;
    const saved = await this.#parts.ledger.saveQuote({
      digest,
      quote: formatQuote({ digest, job: { serviceId, jobIndex }, requester, inputsHash, offers }),
      // The signed value may be up to 2^64 - 1; the bound is 285 million years.
      expiresAt: Math.min(Number(expiry) * 1000, Number.MAX_SAFE_INTEGER),
    });
    return parseQuote(saved.quote).offers;
  }

  /**
   * Returns the offers of a quote, if the request may use it. A request with a signed payment may use the quote until
   * the quote ends.
   * @param use `payer` is lower case, and undefined without a signed payment
   * @throws GatewayError `quote_not_found`, `quote_mismatch`, `quote_conflict`
   */
  async redeem(
    digest: string | undefined,
    use: { readonly job: JobKey; readonly body: Uint8Array; readonly payer: string | undefined },
  ): Promise<readonly Offer[]> {
    const { quote, isPaid, expiresAt } = await this.#find(digest, use.job);
    const { keccak } = await import("hash-wasm");
    if (`0x${await keccak(use.body, 256)}` !== quote.inputsHash) {
      throw mismatch("This quote is for other inputs: the keccak-256 of the body must be its inputs_hash.");
    }
    if (use.payer !== undefined && use.payer !== quote.requester) {
      throw mismatch("This quote is for another payer: only its requester can pay it.");
    }
    if (isPaid) throw quotePaid();
    if (use.payer === undefined && !lastsLongEnough(expiresAt / 1000, this.#parts.clock())) {
      throw new GatewayError("quote_not_found", "This quote ends too soon to be paid: ask for a new one.");
    }
    return quote.offers.map((offer) => atTime(offer, this.#parts.clock()) ?? { ...offer, ttlSecs: 1 });
  }

  /**
   * Checks that a quote exists for this job and has not expired. Does not check whether the quote was already paid, possibly
   * by the same payment, because the write that begins a payment decides that.
   * @returns the quote's digest, and the nonce that its payment uses up
   * @throws GatewayError `quote_not_found`, `quote_mismatch`
   */
  async checkOpen(
    digest: string | undefined,
    job: JobKey,
  ): Promise<{ readonly digest: string; readonly nonce: PurchaseNonce }> {
    const { quote, expiresAt } = await this.#find(digest, job);
    const nonce = nonceOfQuote({ digest: quote.digest, expiresAt });
    return { digest: quote.digest, nonce: { nonce, refusal: quotePaid } };
  }

  async #find(
    digest: string | undefined,
    job: JobKey,
  ): Promise<{ quote: SavedQuote; isPaid: boolean; expiresAt: number }> {
    const found = digest === undefined ? undefined : await this.#parts.ledger.findQuote(digest);
    if (found === undefined) {
      throw new GatewayError(
        "quote_not_found",
        "No open quote has this digest: it was not given here, or it has expired. Ask for a new one.",
      );
    }
    const quote = parseQuote(found.quote);
    if (!equalJobs(quote.job, job)) throw mismatch("This quote is for another job.");
    return { quote, isPaid: found.isPaid, expiresAt: found.expiresAt };
  }
}

/** Refusal of a second payment for one quote. */
function quotePaid(): GatewayError {
  return new GatewayError("quote_conflict", "This quote has been paid for: ask for a new one.");
}

function mismatch(message: string): GatewayError {
  return new GatewayError("quote_mismatch", message);
}

function formatQuote({ offers, job, ...rest }: SavedQuote): string {
  const { serviceId, jobIndex } = job;
  return JSON.stringify({
    ...rest,
    job: { serviceId: serviceId.toString(), jobIndex },
    offers: offers.map(formatOffer),
  });
}

function parseQuote(text: string): SavedQuote {
  const { offers, job, ...rest } = JSON.parse(text);
  return {
    ...rest,
    job: { serviceId: BigInt(job.serviceId), jobIndex: job.jobIndex },
    offers: offers.map(parseOffer),
  };
}
