import { type Clock, systemClock } from "../../core/clock.ts";
import type { ShopAddition, X402Part } from "../../x402/part.ts";
import type { SaleTerms } from "../../x402/prices/price.ts";
import type { EngineJobs } from "./engine-jobs.ts";
import { QuoteBook } from "./quote-book.ts";
import { QuotedPrices } from "./quoted-prices.ts";
import type { FindQuotePayment } from "./quotes.ts";
import type { QuoteLedger } from "./store/ledger.ts";

interface Parts {
  readonly ledger: QuoteLedger;
  /** Undefined if quotes cannot be checked. */
  readonly jobs?: EngineJobs | undefined;
  readonly clock?: Clock;
}

/** The sale of jobs at quotes. A quote that passed through this gateway can be paid at each configuration. */
export class QuoteSales implements X402Part {
  readonly #jobs: EngineJobs | undefined;
  readonly #clock: Clock;
  readonly #quotes: QuoteBook;
  #sale: SaleTerms | undefined;

  constructor({ jobs, clock = systemClock, ...parts }: Parts) {
    this.#jobs = jobs;
    this.#clock = clock;
    this.#quotes = new QuoteBook({ ...parts, clock });
  }

  open(config: Parameters<EngineJobs["open"]>[0]): ShopAddition {
    return {
      ...this.#jobs?.open(config),
      namedPrices: (sale) => {
        this.#sale = sale;
        return new QuotedPrices({ quotes: this.#quotes, clock: this.#clock }, sale);
      },
    };
  }

  /** Returns the ways to pay a quote; undefined when it cannot be paid, or nothing is sold yet. */
  readonly findPayment: FindQuotePayment = async (quote) =>
    this.#sale && this.#quotes.paymentFor(quote, this.#sale);
}
