import type { Logger } from "pino";
import type { X402Config } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import type { Store } from "../../store/store.ts";
import type { Facilitators } from "../facilitators/facilitators.ts";
import type { X402GatewayOptions } from "../gateway-options.ts";
import { Listing } from "../jobs/listing.ts";
import type { Methods } from "../methods/methods.ts";
import type { Terms } from "../purchase/terms.ts";
import type { ChainEvidence } from "../settlement/chain-evidence.ts";
import { JobUrls } from "../wire/paths.ts";
import { JobChargeTerms, JobPolicies } from "./job-policies.ts";
import { OfferBook, type Seals } from "./offer-book.ts";
import type { MakeNamedPrices, SaleTerms } from "./price.ts";
import { FreshOffers, offerTerms, PriceBook, type PricesOfRequests } from "./price-book.ts";
import { createJobPrices, createPriceMap, PayableTokens, PriceChecks } from "./price-source.ts";
import { TokenRates } from "./token-rates.ts";

interface Parts extends Pick<X402GatewayOptions, "prices" | "rates"> {
  readonly store: Store;
  readonly facilitators: Facilitators;
  readonly evidence: ChainEvidence;
  readonly methods: Methods;
  readonly seals: Seals;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The prices at one configuration. */
interface ShopPrices {
  readonly book: PriceBook;
  readonly listing: Listing;
}

/** Rates and offers, which outlive a configuration, and the prices under each configuration. */
export class Prices {
  readonly #parts: Parts;
  readonly rates: TokenRates;
  readonly #checks: PriceChecks;
  readonly #offers: OfferBook;

  constructor(parts: Parts) {
    const { store: ledger, clock, logger } = parts;
    this.#parts = parts;
    const rates = new TokenRates(parts.rates);
    this.rates = rates;
    this.#offers = new OfferBook({ ledger, rates, clock, logger });
    this.#checks = new PriceChecks({ rates, clock, logger });
  }

  /** Returns the prices at a configuration, whose rates must be watched. */
  at(
    config: X402Config,
    ofRequests: PricesOfRequests,
    {
      terms,
      namedPrices,
    }: { readonly terms: readonly Terms[]; readonly namedPrices: readonly MakeNamedPrices[] },
  ): ShopPrices {
    const { prices, facilitators, evidence, methods, seals, clock } = this.#parts;
    const { acceptedTokens, jobs = [], quoteTtlSecs } = config;
    /** Prices of the jobs that configure no price. */
    const ofSource = config.priceSource === "map" ? undefined : prices;
    const chargeTerms = new JobChargeTerms({ config, facilitators, methods });
    const tokens = new PayableTokens(acceptedTokens, jobs);
    const source = this.#checks.payablePrices(
      createJobPrices({ jobs, named: prices, otherwise: ofSource ?? createPriceMap(config.jobPricing) }),
      tokens,
    );
    const policies = new JobPolicies(config, source);
    const urls = new JobUrls(config);
    const sale: SaleTerms = {
      policyOf: (job) => policies.policyOf(job),
      requireEnabled: (job) => policies.requireEnabled(job),
      offersAt: (job, price) =>
        this.#offers.makeUnsaved(
          offerTerms(policies.policyOf(job), price, { tokens, chargeTerms, quoteTtlSecs, clock }),
        ),
      isPayable: (job, price) =>
        this.#checks.hasAmount(job, price.priceWei, tokens.of(job).for(price)) &&
        this.#checks.lastsLongEnough(job, price),
      urlOf: (job) => urls.of(job),
    };
    const book = new PriceBook({
      policies,
      prices: source,
      offers: this.#offers,
      named: namedPrices.map((make) => make(sale)),
      fresh: new FreshOffers({ methods, facilitators, evidence, seals }),
      ofRequests,
      tokens,
      chargeTerms,
      promises: (config.paysBack && config.promises) || [],
      quoteTtlSecs,
      clock,
    });
    const listing = new Listing({
      config,
      policies,
      prices: source,
      isConfigured: ({ price }) => typeof price !== "string" && !(price === undefined && ofSource),
      tokens,
      chargeTerms,
      terms,
      methods,
      rates: this.rates,
      clock,
    });
    return { book, listing };
  }
}
