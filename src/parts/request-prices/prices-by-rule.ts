import type { JobPrice } from "../../x402/prices/price-source.ts";
import type { AskedRequest, RequestPrices } from "../../x402/prices/request-prices.ts";
import type { BodyChecks } from "../../x402/purchase/input-checks.ts";
import { isOnlyShown, priceOf } from "./price-of.ts";
import type { KnownFields } from "./request-values.ts";
import { headersOf, type Rule, type Source, sourceOf } from "./rule.ts";

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

/** Returns the JSON Schema of the bodies that a rule can read; undefined if the rule reads no value in a JSON body. */
export function bodySchemaOf(rule: Rule): string | undefined {
  const source = sourceOf(rule);
  return source.in === "json" ? JSON.stringify(schemaAt(source.tokens, rule)) : undefined;
}

function schemaAt([token, ...others]: (Source & { in: "json" })["tokens"], rule: Rule): object {
  if (token === undefined) return valueSchema(rule);
  // An object or an array can have such a member.
  if (/^\d+$/.test(token)) return {};
  const isRequired = rule.kind !== "cases" || rule.other === undefined;
  return {
    type: "object",
    properties: { [token]: schemaAt(others, rule) },
    ...(isRequired && { required: [token] }),
    additionalProperties: true,
  };
}

function valueSchema(rule: Rule): object {
  if (rule.kind === "cases")
    return { type: "string", ...(rule.other === undefined && { enum: [...rule.cases.keys()] }) };
  return rule.measure.unit === "characters" ? { type: "string" } : { type: "number", minimum: 0 };
}
