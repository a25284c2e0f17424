import * as z from "zod";
import { type Checked, required } from "../../config/check-shape.ts";
import type { Job } from "../../config/config.ts";
import type { EntryKeys } from "../../config/entry-keys.ts";
import { DEFAULT_CONTENT_TYPE, type JobTable } from "../../config/jobs.ts";
import { fileKey, type Place } from "../../config/mistakes.ts";
import { checkCredentials } from "../../config/rules/urls.ts";
import { integer, matching, parsedText, seconds } from "../../config/value-types.ts";
import { httpUrlOrSocket } from "../../config/web-types.ts";
import { SHOWN } from "../../config/wrong-value.ts";
import {
  PRICE_DECIMALS,
  type Price,
  parseDollars,
  priceText,
  type RequestPricing,
  type UsdPrice,
} from "../../core/amounts.ts";
import { isEndToEnd, NEVER_FORWARDED } from "../../core/job-call.ts";
import { defined } from "../../core/objects.ts";
import { parameterNames, parseRoute, takesBody } from "../../core/route.ts";
import { bodySchemaOf } from "./prices-by-rule.ts";
import {
  boundsOf,
  greater,
  headersOf,
  MEASURE_FORM,
  parseMeasure,
  parseSource,
  type Rule,
  ruleText,
  SOURCE_FORM,
  type Source,
  sourceOf,
} from "./rule.ts";

const OFFERED_DECIMALS = 6;
/** The smallest price, in 10^-18 dollars. */
const SMALLEST = 10n ** BigInt(PRICE_DECIMALS - OFFERED_DECIMALS);
const DEFAULT_TIMEOUT_MS = 2_000;

const dollars = (decimals = OFFERED_DECIMALS) =>
  parsedText(
    `dollars above 0 with at most ${decimals} decimal places, such as "$0.01"`,
    (text) => parseDollars(text, decimals),
    { ...SHOWN, view: priceText, near: (text) => [`$${text.replace(/^\$/, "").replace(",", ".")}`] },
  );

/** Text that `parse` can parse. */
const parsable = (expected: string, parse: (text: string) => unknown) =>
  parsedText(expected, (text) => (parse(text) === undefined ? undefined : text), SHOWN);

const keys = {
  /** Price that is added to the price of the units. */
  base: dollars(PRICE_DECIMALS).optional(),
  /** Number in the request that is priced. */
  per: parsable(MEASURE_FORM, parseMeasure).optional(),
  /** Price of each started unit. */
  each: dollars(PRICE_DECIMALS).optional(),
  /** Lowest price. A lower price is raised to it. */
  min: dollars().optional(),
  /** Highest price. A request with a higher price is refused. */
  max: dollars().optional(),
  /** Prices of whole requests, by the number that `per` names. */
  tiers: z
    .array(z.object({ upTo: integer(0, Number.MAX_SAFE_INTEGER).optional(), price: dollars() }))
    .min(1)
    .describe("an array of tables with up_to and price")
    .optional(),
  /** Text that is compared with the `cases`. */
  of: parsable(SOURCE_FORM, parseSource).optional(),
  cases: z
    .record(matching(/^[^\p{Cc}]{1,256}$/u, "a text of 1 to 256 characters", SHOWN), dollars())
    .describe('a table of text = "$0.01"')
    .optional(),
  /** Price of a request with another text, or without a text. */
  other: dollars().optional(),
  /** URL of the operator's program that makes the price of each request. */
  url: httpUrlOrSocket().optional(),
  /** Time limit of the program's response. */
  timeoutMs: seconds(0.001).optional(),
};

const table = z.object(keys);
type PriceTable = Checked<z.output<typeof table>>;
type Key = keyof PriceTable;

/** Price of a job that a rule calculates for each request. */
export interface RulePricing extends RequestPricing {
  readonly byRule: Rule;
}

/** Price of a job that a program makes for each request. */
export interface PricerPricing extends RequestPricing {
  readonly byPricer: { readonly url: string; readonly timeoutMs: number };
}

/** Returns the pricing of a job if this part makes its prices. */
export function pricingOf({ price }: Pick<Job, "price">): RulePricing | PricerPricing | undefined {
  const isOwn = typeof price === "object" && ("byRule" in price || "byPricer" in price);
  return isOwn ? (price as RulePricing | PricerPricing) : undefined;
}

/** Required and optional keys of each kind of rule. */
const KINDS = {
  each: { needs: ["per", "each", "max"], others: ["base", "min"] },
  tiers: { needs: ["per", "tiers"], others: [] },
  cases: { needs: ["of", "cases"], others: ["other"] },
  pricer: { needs: ["max", "url"], others: ["min", "timeoutMs"] },
} as const satisfies Record<string, { readonly needs: readonly Key[]; readonly others: readonly Key[] }>;

/** `price` of `[[jobs]]`, as a table */
export const priceKeys: EntryKeys<"jobs.price"> = {
  list: "jobs.price",
  keys,
  alternative: "a table",
  claim(price: object, place, tables: { readonly jobs?: readonly (JobTable | undefined)[] }) {
    // A price in dollars is read as an object with a unit.
    if ("unit" in price) return undefined;
    const given = price as PriceTable;
    const job = tables.jobs?.[Number(place.path[1])] ?? {};
    const source = sourceIn(given);
    return {
      keys: given,
      headers: source?.in === "header" ? [source.name] : [],
      bounds: boundsIn(given),
      check: () => checkPrice(given, place, job),
      complete: () => toPricing(given),
    };
  },
};

/** Returns the prices that a table states, including the lowest and the highest. */
function boundsIn({ base, min, max, tiers = [], cases = {}, other }: PriceTable): readonly Price[] {
  const lowest = greater(priceIn(min)?.amount ?? 0n, priceIn(base)?.amount ?? 0n);
  const ofUnits = lowest === 0n ? [] : [{ unit: "usd", amount: lowest } as const];
  const prices = [max, ...tiers.map((tier) => tier?.price), ...Object.values(cases), other];
  return [...ofUnits, ...prices.flatMap((price) => priceIn(price) ?? [])];
}

/** Casts the value of a key that holds dollars, because the type of checked tables makes every field optional. */
function priceIn(value: unknown): UsdPrice | undefined {
  return value as UsdPrice | undefined;
}

function sourceIn({ of, per = "" }: PriceTable): Source | undefined {
  return of === undefined ? parseMeasure(per)?.source : parseSource(of);
}

function kindOf(given: PriceTable): keyof typeof KINDS {
  if (given.url !== undefined) return "pricer";
  if (given.tiers !== undefined) return "tiers";
  return given.cases !== undefined || given.of !== undefined ? "cases" : "each";
}

function checkPrice(given: PriceTable, place: Place, job: JobTable): void {
  const kind = kindOf(given);
  const { needs, others } = KINDS[kind];
  for (const key of needs)
    if (given[key] === undefined)
      place
        .at(key)
        .reportMissing(
          `is missing; expected ${needs.join(", ")} since ${place.text} has ${needs.find((one) => given[one] !== undefined) ?? "none of them"}`,
        );
  const allowed: readonly Key[] = [...needs, ...others];
  for (const key of Object.keys(keys) as Key[])
    if (given[key] !== undefined && !allowed.includes(key))
      place
        .at(fileKey(key))
        .report(`is set beside ${needs[1]}; expected only ${allowed.map(fileKey).join(", ")}`);
  if (kind === "pricer") checkPricer(given, place);
  if (kind === "each") checkBounds(given, place);
  checkTiers(given, place.at("tiers"));
  const at = place.at(kind === "cases" ? "of" : "per");
  const source = sourceIn(given);
  if (source !== undefined) checkSource(source, at, job);
}

function checkPricer({ url, min, max }: PriceTable, place: Place): void {
  if (url !== undefined && !url.startsWith("unix:")) checkCredentials(place.at("url"), url);
  checkMax(priceIn(max)?.amount, priceIn(min)?.amount ?? 0n, place);
}

/** @returns false if the highest price is missing or below the lowest */
function checkMax(most: bigint | undefined, least: bigint, place: Place): most is bigint {
  if (most === undefined || most >= least) return most !== undefined;
  place.at("max").report("is below min; expected at least min");
  return false;
}

function checkBounds({ base, each, min, max }: PriceTable, place: Place): void {
  if (base === undefined && min === undefined && !place.at("base").hasMistake)
    place
      .at("min")
      .reportMissing("is missing; expected the price of a request with 0 units, since there is no base");
  const amounts = [base, each, min].map((one) => priceIn(one)?.amount ?? 0n);
  const [ofBase = 0n, ofUnit = 0n, least = 0n] = amounts;
  const most = priceIn(max)?.amount;
  if (checkMax(most, least, place) && most < ofBase + ofUnit)
    place.at("max").report("is below the price of one unit; expected at least base and each together");
}

function checkTiers({ tiers = [] }: PriceTable, place: Place): void {
  let last = -1;
  for (const [i, tier] of tiers.entries()) {
    const at = place.at(i, "up_to");
    const upTo = tier?.upTo;
    if (upTo === undefined) {
      if (i < tiers.length - 1 && tier !== undefined)
        at.reportMissing("is missing; expected a number, since other tiers follow");
      continue;
    }
    if (upTo <= last) at.report(`is ${upTo}, not above the tier before; expected tiers in rising order`);
    last = upTo;
  }
}

/** Checks that a request for the job can have the value. */
function checkSource(source: Source, place: Place, { route: text, input }: JobTable): void {
  const route = text === undefined ? undefined : parseRoute(text);
  if (source.in === "header") {
    const never = NEVER_FORWARDED.find(({ names }) => names.test(source.name));
    if (never !== undefined) place.report(`reads a header that ${never.reason}; expected another header`);
    else if (!isEndToEnd(source.name))
      place.report("reads a header of the connection or of a gateway; expected another header");
    return;
  }
  if (source.in === "query" || source.in === "path") {
    if (route === undefined) {
      place.report(`reads the ${source.in} of a job without a route; expected json:, header: or body:`);
    } else if (source.in === "path" && !parameterNames(route).includes(source.name)) {
      const names = parameterNames(route).map((name) => `path:${name}`);
      place.report(
        `is not a parameter of the route; expected ${names.join(" or ") || "query:, json: or header:"}`,
      );
    }
    return;
  }
  if (route?.methods.some(takesBody) === false)
    place.report("reads the body of a job whose methods have none; expected query:, path: or header:");
  const type = input?.contentType;
  if (source.in === "json" && type !== undefined && !/^application\/([\w.-]+\+)?json\b/i.test(type))
    place.report(`reads JSON from a job whose input is ${type}; expected a JSON content_type`);
}

/** Completes a table without mistakes. */
function toPricing(given: PriceTable): RulePricing | PricerPricing {
  const { url, timeoutMs = DEFAULT_TIMEOUT_MS, min, max } = given;
  if (url !== undefined)
    return {
      from: priceIn(min) ?? { unit: "usd", amount: SMALLEST },
      upTo: required(priceIn(max)),
      rule: "as the seller's program says",
      headers: [],
      byPricer: { url, timeoutMs },
    };
  const rule = toRule(given);
  const { from, upTo } = boundsOf(rule);
  const source = sourceOf(rule);
  return {
    from: { unit: "usd", amount: from },
    upTo: { unit: "usd", amount: upTo },
    rule: ruleText(rule),
    headers: headersOf(rule),
    ...(source.in === "header" && { needsHeaders: rule.kind !== "cases" || rule.other === undefined }),
    ...(source.in === "json" && { contentType: DEFAULT_CONTENT_TYPE }),
    ...defined({ bodySchema: bodySchemaOf(rule) }),
    byRule: rule,
  };
}

function toRule({ base, per, each, min, max, tiers, of, cases, other }: PriceTable): Rule {
  const amountOf = (price: unknown) => priceIn(price)?.amount;
  const measure = () => required(parseMeasure(required(per)));
  if (tiers !== undefined) {
    const complete = tiers.map((tier) => ({
      upTo: tier?.upTo === undefined ? undefined : BigInt(tier.upTo),
      price: required(amountOf(tier?.price)),
    }));
    return { kind: "tiers", measure: measure(), tiers: complete };
  }
  if (cases !== undefined) {
    const prices = Object.entries(cases).map(([text, price]) => [text, required(amountOf(price))] as const);
    return {
      kind: "cases",
      of: required(parseSource(required(of))),
      cases: new Map(prices),
      other: amountOf(other),
    };
  }
  return {
    kind: "each",
    measure: measure(),
    base: amountOf(base) ?? 0n,
    each: required(amountOf(each)),
    min: amountOf(min) ?? 0n,
    max: required(amountOf(max)),
  };
}
