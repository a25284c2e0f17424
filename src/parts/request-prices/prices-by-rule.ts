import type { JobPrice } from "../../x402/prices/price-source.ts";
import type { AskedRequest, RequestPrices } from "../../x402/prices/request-prices.ts";
import type { BodyChecks } from "../../x402/purchase/input-checks.ts";
import { isOnlyShown, priceOf } from "./price-of.ts";
import type { KnownFields } from "./request-values.ts";
import { headersOf, type Rule, sourceOf } from "./rule.ts";

/** Prices of one job, calculated by a rule. */
export class PricesByRule implements RequestPrices {
  readonly headers: readonly string[];
  readonly #rule: Rule;
  readonly #known: KnownFields;
  readonly #bodies: Pick<BodyChecks, "read">;

  /** @param known fields that the query of a request may have */
  constructor(rule: Rule, known: KnownFields, bodies: Pick<BodyChecks, "read">) {
    this.#rule = rule;
    this.#known = known;
    this.#bodies = bodies;
    this.headers = headersOf(rule);
  }

  /** @throws GatewayError `rate_limited` when the bodies of the client have taken too long to read */
  async priceOf(asked: AskedRequest): Promise<JobPrice> {
    const read = () => priceOf(this.#rule, asked, this.#known);
    const isOfJson = sourceOf(this.#rule).in === "json";
    const { amount } = isOfJson ? this.#bodies.read(asked.client, asked.body, read) : read();
    return { priceWei: amount, currency: "USD", isOnlyShown: isOnlyShown(this.#rule, asked) };
  }
}
