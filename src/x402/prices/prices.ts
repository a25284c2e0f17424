import type { Logger } from "pino";
import type { X402Config } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import type { Store } from "../../store/store.ts";
import type { Facilitators } from "../facilitators/facilitators.ts";
import type { X402GatewayOptions } from "../gateway-options.ts";
import { JobUrls } from "../jobs/job-urls.ts";
import { Listing } from "../jobs/listing.ts";
import type { Methods } from "../methods/methods.ts";
import type { Terms } from "../purchase/terms.ts";
import { JobChargeTerms } from "./charge-terms.ts";
import { JobPolicies } from "./job-policies.ts";
import { OfferBook } from "./offer-book.ts";
import { PayableTokens } from "./payable-tokens.ts";
import { PriceBook, type PricesOfRequests } from "./price-book.ts";
import { PriceChecks } from "./price-checks.ts";
import { createJobPrices, createPriceMap } from "./price-source.ts";
import { QuoteBook } from "./quote-book.ts";
import type { QuotePayment, ReceivedQuote } from "./quotes.ts";
import { TokenRates } from "./token-rates.ts";

interface Parts extends Pick<X402GatewayOptions, "prices" | "redeemsQuotes" | "rates"> {
  readonly store: Store;
  readonly facilitators: Facilitators;
  readonly methods: Methods;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The prices at one configuration. */
interface ShopPrices {
  readonly book: PriceBook;
  readonly listing: Listing;
  /** Returns the ways to pay a quote of the pricing engine here; undefined when it cannot be paid. */
  quotePayment(quote: ReceivedQuote): Promise<QuotePayment | undefined>;
}

/** Rates, offers and quotes, which outlive a configuration, and the prices that they make at each. */
export class Prices {
  readonly #parts: Parts;
  readonly rates: TokenRates;
  readonly #checks: PriceChecks;
  readonly #offers: OfferBook;
  readonly #quotes: QuoteBook;

  constructor(parts: Parts) {
    const { store: ledger, clock, logger } = parts;
    this.#parts = parts;
    const rates = new TokenRates(parts.rates);
    this.rates = rates;
    this.#offers = new OfferBook({ ledger, rates, clock, logger });
    this.#checks = new PriceChecks({ rates, clock, logger });
    this.#quotes = new QuoteBook({ ledger, rates, checks: this.#checks, clock });
  }

  /** Returns the prices at a configuration, whose rates must be watched. */
  at(config: X402Config, ofRequests: PricesOfRequests, terms: readonly Terms[]): ShopPrices {
    const { prices, redeemsQuotes = false, facilitators, methods, clock } = this.#parts;
    const { acceptedTokens, jobs = [], quoteTtlSecs } = config;
    /** Prices of the jobs that have none of their own. */
    const ofEngine = config.priceSource === "engine" ? prices : undefined;
    const chargeTerms = new JobChargeTerms({ config, facilitators, methods });
    const tokens = new PayableTokens(acceptedTokens);
    const source = this.#checks.payablePrices(
      createJobPrices({ jobs, engine: prices, otherwise: ofEngine ?? createPriceMap(config.jobPricing) }),
      tokens,
    );
    const policies = new JobPolicies(config, source);
    const book = new PriceBook({
      policies,
      prices: source,
      offers: this.#offers,
      quotes: redeemsQuotes ? this.#quotes : undefined,
      ofRequests,
      tokens,
      chargeTerms,
      paysBack: config.paysBack === true,
      quoteTtlSecs,
      clock,
    });
    const listing = new Listing({
      config,
      policies,
      prices: source,
      isConfigured: ({ price }) => price !== "engine" && !(price === undefined && ofEngine),
      tokens,
      chargeTerms,
      terms,
      methods,
      rates: this.rates,
      clock,
    });
    const atThisConfig = {
      policies,
      tokens: tokens.forWei,
      chargeTerms,
      quoteTtlSecs,
      urls: new JobUrls(config),
    };
    return { book, listing, quotePayment: (quote) => this.#quotes.paymentFor(quote, atThisConfig) };
  }
}
