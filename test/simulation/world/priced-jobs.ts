import type { Job } from "../../../src/config/config.ts";
import { parseRoute, type Route } from "../../../src/core/route.ts";
import type { PricerPricing, RulePricing } from "../../../src/parts/request-prices/config.ts";
import {
  boundsOf,
  headersOf,
  type Measure,
  parseMeasure,
  parseSource,
  type Rule,
  ruleText,
  type Source,
} from "../../../src/parts/request-prices/rule.ts";
import { JSON_BEGINS } from "./laws.ts";
import type { Purchase } from "./protocols.ts";

/** 10^-18 dollars in a token's unit, which is a millionth of a dollar. */
const UNIT = 10n ** 12n;

/** One of the prices that the operator may give a job. All amounts are in token units. */
interface Variant {
  readonly price: NonNullable<Job["price"]>;
  /** Returns the price of a request, made in another way than the gateway makes it. */
  amountOf(request: Purchase): bigint | undefined;
}

/** A job whose price depends on the request. */
export interface PricedJob {
  readonly jobIndex: number;
  readonly path: string;
  readonly route?: Route;
  /** The first at the beginning, and others after reloads. Absent: a program makes the price. */
  readonly variants?: readonly [Variant, ...Variant[]];
  /** Returns a client's request that costs little, and one that costs more. */
  requestsOf(name: string): { readonly little: Purchase; readonly much: Purchase };
}

export const PRICER_HOST = "pricer.example";
export const PRICER_TIMEOUT_MS = 2_000;
/** Bounds of what the program may ask, in token units. */
export const [LEAST, MOST] = [300_001n, 5_000_003n];
export const PRICER: PricerPricing = {
  from: { unit: "usd", amount: LEAST * UNIT },
  upTo: { unit: "usd", amount: MOST * UNIT },
  ...{ rule: "as the seller's program says", headers: [] },
  byPricer: { url: `http://${PRICER_HOST}/price`, timeoutMs: PRICER_TIMEOUT_MS },
};

const PER_BYTE = measure("body:byte");
const PER_NUMBER = measure("json:/n");
const TIER = source("header:x-tier");
const UNITS = source("query:units");
const [FEW, MANY] = [2, 40];

/** Jobs with a rule each, and one whose price a program makes. */
export const PRICED_JOBS: readonly PricedJob[] = [
  {
    ...atIds(10),
    variants: [perByte(10_007n), perByte(30_011n), fixed(2_000_003n)],
    requestsOf: (name) => ({
      little: post(10, `${name}: work`),
      much: post(10, `${name}: work ${"!".repeat(MANY)}`),
    }),
  },
  {
    ...atIds(11),
    variants: [perNumber(50_021n), byNumber(700_001n, 3_000_017n), fixed(1_000_003n)],
    requestsOf: (name) => ({ little: post(11, numbered(name, FEW)), much: post(11, numbered(name, MANY)) }),
  },
  {
    ...{ jobIndex: 12, path: "/convert", route: parseRoute("POST /convert") as Route },
    variants: [byText(UNITS, 500_009n, 2_500_009n), byText(UNITS, 900_001n, 4_000_037n), fixed(1_500_007n)],
    requestsOf: (name) => ({
      little: { path: "/convert", query: "units=celsius", headers: {}, body: `${name}: work` },
      much: { path: "/convert", query: "units=kelvin", headers: {}, body: `${name}: work` },
    }),
  },
  {
    ...atIds(13),
    variants: [byText(TIER, 400_009n, 3_500_017n), byText(TIER, 800_011n, 2_200_013n), fixed(1_200_007n)],
    requestsOf: (name) => ({
      little: { ...post(13, `${name}: work`), headers: { "x-tier": "celsius" } },
      much: { ...post(13, `${name}: work`), headers: { "x-tier": "kelvin" } },
    }),
  },
  {
    ...atIds(14),
    requestsOf: (name) => ({
      little: post(14, `${name}: work`),
      much: post(14, `${name}: work ${"!".repeat(MANY)}`),
    }),
  },
];

function atIds(jobIndex: number) {
  return { jobIndex, path: `/x402/jobs/1/${jobIndex}` };
}

function post(jobIndex: number, body: string): Purchase {
  return { path: `/x402/jobs/1/${jobIndex}`, headers: { "content-type": "application/json" }, body };
}

function numbered(name: string, n: number): string {
  return `${JSON_BEGINS}${name}: work","n":${n}}`;
}

function fixed(amount: bigint): Variant {
  return { price: { unit: "usd", amount: amount * UNIT }, amountOf: () => amount };
}

function perByte(each: bigint): Variant {
  return {
    price: pricing({ kind: "each", measure: PER_BYTE, ...wei({ base: 3n, each, min: 5n, max: MOST }) }),
    amountOf: ({ body }) => 3n + each * BigInt(body.length),
  };
}

function perNumber(each: bigint): Variant {
  const min = 200_003n;
  return {
    price: pricing({ kind: "each", measure: PER_NUMBER, ...wei({ base: 0n, each, min, max: MOST }) }),
    amountOf(request) {
      const n = numberIn(request);
      if (n === undefined) return undefined;
      const amount = each * BigInt(n);
      return amount < min ? min : amount;
    },
  };
}

function byNumber(few: bigint, many: bigint): Variant {
  const tiers = [
    { upTo: BigInt(FEW), price: few * UNIT },
    { upTo: undefined, price: many * UNIT },
  ];
  return {
    price: pricing({ kind: "tiers", measure: PER_NUMBER, tiers }),
    amountOf(request) {
      const n = numberIn(request);
      return n === undefined ? undefined : n <= FEW ? few : many;
    },
  };
}

function byText(of: Source, other: bigint, kelvin: bigint): Variant {
  const cases = new Map([["kelvin", kelvin * UNIT]]);
  return {
    price: pricing({ kind: "cases", of, cases, other: other * UNIT }),
    amountOf({ query = "", headers }) {
      const text = of.in === "query" ? query.split("=")[1] : headers["x-tier"];
      return text === "kelvin" ? kelvin : other;
    },
  };
}

function numberIn({ body }: Purchase): number | undefined {
  try {
    return JSON.parse(body).n;
  } catch {
    return undefined;
  }
}

function wei<K extends string>(amounts: Record<K, bigint>): Record<K, bigint> {
  return Object.fromEntries(
    Object.entries<bigint>(amounts).map(([key, amount]) => [key, amount * UNIT]),
  ) as Record<K, bigint>;
}

function pricing(rule: Rule): RulePricing {
  const { from, upTo } = boundsOf(rule);
  return {
    from: { unit: "usd", amount: from },
    upTo: { unit: "usd", amount: upTo },
    ...{ rule: ruleText(rule), headers: headersOf(rule), byRule: rule },
  };
}

function measure(text: string): Measure {
  const parsed = parseMeasure(text);
  if (parsed === undefined) throw new Error(text);
  return parsed;
}

function source(text: string): Source {
  const parsed = parseSource(text);
  if (parsed === undefined) throw new Error(text);
  return parsed;
}
