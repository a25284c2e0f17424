import type { JobPrice } from "../../x402/prices/price-source.ts";
import type { AskedRequest, RequestPrices } from "../../x402/prices/request-prices.ts";
import { isOnlyShown, priceOf } from "./price-of.ts";
import type { KnownFields } from "./request-values.ts";
import { headersOf, type Rule } from "./rule.ts";

/** Prices of one job, calculated by a rule. */
export class PricesByRule implements RequestPrices {
  readonly headers: readonly string[];
  readonly #rule: Rule;
  readonly #known: KnownFields;

  /** @param known fields that the query of a request may have */
  constructor(rule: Rule, known: KnownFields) {
    this.#rule = rule;
    this.#known = known;
    this.headers = headersOf(rule);
  }

  async priceOf(asked: AskedRequest): Promise<JobPrice> {
    const { amount } = priceOf(this.#rule, asked, this.#known);
    return { priceWei: amount, currency: "USD", isOnlyShown: isOnlyShown(this.#rule, asked) };
  }
}
