import { priceText } from "../../core/amounts.ts";

/** Place in a request of a value that a price depends on. */
export type Source =
  | { readonly in: "body" }
  /** A value in the JSON body: the pointer, and its tokens. */
  | { readonly in: "json"; readonly pointer: string; readonly tokens: readonly string[] }
  /** A field of the query, a parameter of the route's path, or a header in lower case. */
  | { readonly in: "query" | "path" | "header"; readonly name: string };

/** Number that is priced: the number at the source, or the count of characters or bytes there. */
export interface Measure {
  readonly source: Source;
  readonly unit: "number" | "characters" | { readonly name: string; readonly bytes: bigint };
}

/** Rule that calculates the price of a request. Amounts are in 10^-18 dollars. */
export type Rule =
  | {
      readonly kind: "each";
      readonly measure: Measure;
      readonly base: bigint;
      readonly each: bigint;
      readonly min: bigint;
      readonly max: bigint;
    }
  | { readonly kind: "tiers"; readonly measure: Measure; readonly tiers: readonly Tier[] }
  | {
      readonly kind: "cases";
      readonly of: Source;
      readonly cases: ReadonlyMap<string, bigint>;
      readonly other: bigint | undefined;
    };

/** Tier of prices. The first tier that a request fits in sets the price of the whole request. */
export interface Tier {
  /** Undefined if the last tier has no bound. */
  readonly upTo: bigint | undefined;
  readonly price: bigint;
}

const BYTES: ReadonlyMap<string, bigint> = new Map([
  ["byte", 1n],
  ["kB", 1_000n],
  ["KiB", 1_024n],
  ["MB", 1_000_000n],
  ["MiB", 1_048_576n],
]);

const CHARACTERS = ":characters";

export const SOURCE_FORM =
  "json: and a JSON pointer, or query:, path: or header: and a name, such as query:units";
export const MEASURE_FORM = `body: and byte, kB, KiB, MB or MiB, or ${SOURCE_FORM}, each with :characters for the length of a text`;

/** Parses `json:/n`, `query:units`, `path:model` or `header:x-tier`. @returns undefined for any other text */
export function parseSource(text: string): Source | undefined {
  const [, place, name = ""] = /^(json|query|path|header):(.*)$/.exec(text) ?? [];
  if (place === "json")
    return POINTER.test(name)
      ? { in: "json", pointer: name, tokens: name.split("/").slice(1).map(unescaped) }
      : undefined;
  if (place === "query") return QUERY_NAME.test(name) ? { in: "query", name } : undefined;
  if (place === "path") return PATH_NAME.test(name) ? { in: "path", name } : undefined;
  return place === "header" && HEADER_NAME.test(name)
    ? { in: "header", name: name.toLowerCase() }
    : undefined;
}

const POINTER = /^(\/([^~/]|~[01])*)*$/;
const QUERY_NAME = /^[\x21-\x7e]{1,128}$/;
const PATH_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;
const HEADER_NAME = /^[A-Za-z0-9-]{1,64}$/;

/** Parses `body:KiB`, or a source with or without `:characters`. @returns undefined for any other text */
export function parseMeasure(text: string): Measure | undefined {
  const [, unit] = /^body:(\w+)$/.exec(text) ?? [];
  const bytes = BYTES.get(unit ?? "");
  if (unit !== undefined && bytes !== undefined)
    return { source: { in: "body" }, unit: { name: unit, bytes } };
  const isOfText = text.endsWith(CHARACTERS);
  const source = parseSource(isOfText ? text.slice(0, -CHARACTERS.length) : text);
  return source && { source, unit: isOfText ? "characters" : "number" };
}

function unescaped(token: string): string {
  return token.replaceAll("~1", "/").replaceAll("~0", "~");
}

export function sourceOf(rule: Rule): Source {
  return rule.kind === "cases" ? rule.of : rule.measure.source;
}

/** Returns the headers that prices by a rule depend on, in lower case. */
export function headersOf(rule: Rule): readonly string[] {
  const source = sourceOf(rule);
  return source.in === "header" ? [source.name] : [];
}

export function greater(one: bigint, other: bigint): bigint {
  const isLess = one < other;
  return isLess ? other : one;
}

/** Returns the lowest and the highest price. */
export function boundsOf(rule: Rule): { readonly from: bigint; readonly upTo: bigint } {
  if (rule.kind === "each") return { from: greater(rule.min, rule.base), upTo: rule.max };
  const prices =
    rule.kind === "tiers"
      ? rule.tiers.map(({ price }) => price)
      : [...rule.cases.values(), ...(rule.other === undefined ? [] : [rule.other])];
  const sorted = prices.sort((a, b) => (a < b ? -1 : 1));
  return { from: sorted[0] ?? 0n, upTo: sorted.at(-1) ?? 0n };
}

/** Describes how a rule calculates a price. */
export function ruleText(rule: Rule): string {
  switch (rule.kind) {
    case "each": {
      const { base, each, min, max, measure } = rule;
      const fixed = base === 0n ? "" : `${dollars(base)} and `;
      const least = min === 0n ? "" : `, at least ${dollars(min)}`;
      return `${fixed}${dollars(each)} for each ${startedText(measure)}${least}, at most ${dollars(max)}`;
    }
    case "tiers": {
      const tiers = rule.tiers.map(({ upTo, price }) =>
        upTo === undefined ? `${dollars(price)} above` : `${dollars(price)} up to ${upTo}`,
      );
      return `by ${measureText(rule.measure)}: ${tiers.join(", ")}`;
    }
    case "cases": {
      const cases = [...rule.cases].map(([value, price]) => `${dollars(price)} for ${value}`);
      const other = rule.other === undefined ? [] : [`${dollars(rule.other)} otherwise`];
      return `by ${sourceText(rule.of)}: ${[...cases, ...other].join(", ")}`;
    }
  }
}

/** Describes the number that is priced: `the characters of /text in the JSON body`. */
function measureText({ source, unit }: Measure): string {
  if (unit === "number") return sourceText(source);
  return unit === "characters" ? `the characters of ${sourceText(source)}` : `the ${unit.name} of the body`;
}

/** Describes the units that a request has: `3 KiB of the body`. */
export function countText({ source, unit }: Measure, units: bigint): string {
  if (unit === "number") return `${units} units of ${sourceText(source)}`;
  return unit === "characters"
    ? `${units} characters of ${sourceText(source)}`
    : `${units} ${unit.name} of the body`;
}

/** States that a request has more units: `the body is larger than 3 KiB`. */
export function aboveText({ source, unit }: Measure, units: bigint): string {
  const subject = sourceText(source);
  if (unit === "number") return `${subject} is above ${units}`;
  return unit === "characters"
    ? `${subject} has more than ${units} characters`
    : `${subject} is larger than ${units} ${unit.name}`;
}

function startedText({ source, unit }: Measure): string {
  if (unit === "number") return `1 of ${sourceText(source)}`;
  return unit === "characters" ? `character of ${sourceText(source)}` : `started ${unit.name} of the body`;
}

export function sourceText(source: Source): string {
  switch (source.in) {
    case "body":
      return "the body";
    case "json":
      return source.pointer === "" ? "the JSON body" : `${source.pointer} in the JSON body`;
    case "query":
      return `the query's ${source.name}`;
    case "path":
      return `the path's ${source.name}`;
    case "header":
      return `the header ${source.name}`;
  }
}

function dollars(amount: bigint): string {
  return priceText({ unit: "usd", amount });
}
