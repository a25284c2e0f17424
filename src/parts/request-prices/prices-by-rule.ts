import { createHash } from "node:crypto";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { equalJobs } from "../../core/job-call.ts";
import type { SignedPayment } from "../../x402/methods/method.ts";
import { priceUnavailable } from "../../x402/prices/price-source.ts";
import type { AskedRequest, RequestPrices, SaleTerms } from "../../x402/prices/request-prices.ts";
import { matchOffer } from "../../x402/wire/match-offer.ts";
import { atTime, type Offer } from "../../x402/wire/offer.ts";
import { priceOf } from "./price-of.ts";
import type { KnownFields } from "./request-values.ts";
import { type Rule, sourceOf } from "./rule.ts";
import type { SealedOffers } from "./sealed-offers.ts";

interface Parts {
  readonly rule: Rule;
  /** Fields that the query of a request may have. */
  readonly known: KnownFields;
  readonly sealed: SealedOffers;
  readonly clock: Clock;
}

/** Headers that can change what a body means. */
const OF_BODY = ["content-encoding", "content-type"];

/** The prices of one job by a rule, each in offers for one request. */
export class PricesByRule implements RequestPrices {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async offers(asked: AskedRequest, terms: SaleTerms): Promise<readonly Offer[]> {
    const { sealed, clock } = this.#parts;
    const request = this.#hashOf(asked);
    const quoteExpiry = Math.ceil(clock() / 1000) + terms.ttlSecs;
    return this.#offersNow(asked, terms).map((offer) =>
      sealed.seal({ ...offer, quoteDigest: terms.digestOf(offer), quoteExpiry }, request),
    );
  }

  /** Clients of v1 echo no offer: their payments are matched with the price of the request now, and with earlier fixed offers. */
  async match(payment: SignedPayment, asked: AskedRequest, terms: SaleTerms): Promise<Offer> {
    const { sealed, clock } = this.#parts;
    const now = clock();
    const found = sealed.open(payment.accepted?.extra, this.#hashOf(asked));
    if (found === "none")
      return matchOffer(payment, [...this.#offersNow(asked, terms), ...(await terms.findEarlier())], now);
    if (found === undefined || !equalJobs(found.job, terms.policy))
      throw mismatch("The offer is for another request: its price is for the request that asked for it.");
    const offer = atTime(found, now);
    if (offer === undefined) throw mismatch("The offer for this request has ended.");
    return matchOffer(payment, [offer], now);
  }

  #offersNow(asked: AskedRequest, terms: SaleTerms): readonly Offer[] {
    const { rule, known } = this.#parts;
    const offers = terms.offersAt({ priceWei: priceOf(rule, asked, known), currency: "USD" });
    if (offers.length === 0) throw priceUnavailable("no token can be asked for it now");
    return offers;
  }

  /** Returns the hash of a request with all that its price depends on, whatever a payment for it is bound to. */
  #hashOf(asked: AskedRequest): string {
    const source = sourceOf(this.#parts.rule);
    const names = source.in === "header" ? [...OF_BODY, source.name] : OF_BODY;
    const headers = names.map((name) => `${name}: ${JSON.stringify(asked.headerValues(name))}`);
    return createHash("sha256")
      .update([asked.hash, ...headers].join("\n"))
      .digest("hex");
  }
}

function mismatch(sentence: string): GatewayError {
  return new GatewayError("payment_mismatch", `${sentence} Nothing was charged: sign one of these offers.`);
}
