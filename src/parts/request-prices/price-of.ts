import type { AskedRequest } from "../../x402/prices/request-prices.ts";
import { codePoints, startedUnits } from "./decimals.ts";
import { invalid, type KnownFields, requirePlainBody, textOf, valueAt } from "./request-values.ts";
import { aboveText, boundsOf, countText, type Measure, type Rule, sourceOf, sourceText } from "./rule.ts";

/** Price of a request, and the value that it was calculated from. */
export interface RulePrice {
  /** 10^-18 dollars. */
  readonly amount: bigint;
  /** Value that the rule read, such as `3 KiB of the body`; undefined if the request has none. */
  readonly read: string | undefined;
}

/**
 * Returns the price of a request.
 * @param known further fields that the query may have, if the rule reads the query
 * @throws GatewayError `invalid_input`, `unsupported_media_type`
 */
export function priceOf(rule: Rule, asked: AskedRequest, known: KnownFields): RulePrice {
  if (isBare(rule, asked)) return priceOfBare(rule);
  if (rule.kind === "cases") return priceOfCase(rule, asked, known);
  const units = unitsOf(rule.measure, asked, known);
  const amount = rule.kind === "each" ? priceOfUnits(rule, units) : priceOfTier(rule, units);
  return { amount, read: countText(rule.measure, units) };
}

/**
 * Refuses to sell a request that has no value for the rule to read, because such a request only asks what a job costs.
 * A rule that has a price for such requests sells them.
 * @throws GatewayError `invalid_input`
 */
export function requireValue(rule: Rule, asked: Values): void {
  if (!isOnlyShown(rule, asked)) return;
  const source = sourceOf(rule);
  throw invalid(source, `${capital(sourceText(source))} is missing.`, "is missing");
}

/** Reports whether the price of a request is shown although the request is not sold. */
export function isOnlyShown(rule: Rule, asked: Values): boolean {
  const hasPrice = sourceOf(rule).in === "body" || (rule.kind === "cases" && rule.other !== undefined);
  return !hasPrice && isBare(rule, asked);
}

/** The parts of a request that a rule reads. */
type Values = Pick<AskedRequest, "body" | "query" | "path" | "headerValues">;

/**
 * Reports whether a request has no value that the rule could read. A path that has a placeholder, such as `{city}`, has no
 * value.
 */
function isBare(rule: Rule, { body, query, path, ...asked }: Values): boolean {
  if (body.length > 0 || query !== "") return false;
  const source = sourceOf(rule);
  if (source.in === "header") return asked.headerValues(source.name).length === 0;
  return (
    source.in !== "path" || path.replace(/%7b/gi, "{").replace(/%7d/gi, "}").includes(`{${source.name}}`)
  );
}

function priceOfBare(rule: Rule): RulePrice {
  const other = rule.kind === "cases" ? rule.other : undefined;
  return { amount: other ?? boundsOf(rule).from, read: undefined };
}

function priceOfUnits({ base, each, min, max, measure }: Rule & { kind: "each" }, units: bigint): bigint {
  const price = base + each * units;
  if (price > max) throw tooMuch(measure, (max - base) / each);
  return price < min ? min : price;
}

function priceOfTier({ measure, tiers }: Rule & { kind: "tiers" }, units: bigint): bigint {
  const tier = tiers.find(({ upTo }) => upTo === undefined || units <= upTo);
  if (tier === undefined) throw tooMuch(measure, tiers.at(-1)?.upTo ?? 0n);
  return tier.price;
}

function priceOfCase(
  { of, cases, other }: Rule & { kind: "cases" },
  asked: AskedRequest,
  known: KnownFields,
): RulePrice {
  if (of.in === "body") throw new Error("a rule compares the whole body");
  const value = valueAt(of, asked, known);
  if (value !== undefined && value.kind !== "string")
    throw invalid(of, `${capital(sourceText(of))} is not a string.`, "is not a string");
  textOf(of, value?.text);
  const amount = (value === undefined ? undefined : cases.get(value.text)) ?? other;
  const text = value === undefined ? "nothing" : JSON.stringify(value.text);
  if (amount !== undefined) return { amount, read: `${text} in ${sourceText(of)}` };
  const problem = value === undefined ? "is missing" : "is not one of the values for sale";
  throw invalid(of, `${capital(sourceText(of))} ${problem}.`, problem, { values: [...cases.keys()] });
}

function unitsOf({ source, unit }: Measure, asked: AskedRequest, known: KnownFields): bigint {
  if (source.in === "body") {
    requirePlainBody(asked);
    const { bytes } = unit as Exclude<Measure["unit"], string>;
    return (BigInt(asked.body.length) + bytes - 1n) / bytes;
  }
  const value = valueAt(source, asked, known);
  const isText = unit === "characters";
  if (isText && value?.kind === "string") return BigInt(codePoints(value.text));
  const isNumber = value?.kind === "number" || (source.in !== "json" && value?.kind === "string");
  // A text with an exponent is refused, because programs read it in different ways.
  const isPlain = source.in === "json" || (isNumber && /^[0-9.]+$/.test(value.text));
  const units = !isText && isNumber && isPlain ? startedUnits(value.text) : undefined;
  if (units !== undefined) return units;
  const expected = isText ? "a string" : "a number of 0 or more";
  throw invalid(source, `${capital(sourceText(source))} is not ${expected}.`, `must be ${expected}`);
}

function tooMuch(measure: Measure, most: bigint) {
  return invalid(
    measure.source,
    `${capital(aboveText(measure, most))}, the most that one request can buy.`,
    `must be at most ${most}`,
    { most: most.toString() },
  );
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
