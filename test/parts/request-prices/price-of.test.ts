import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseDollars } from "../../../src/core/amounts.ts";
import type { GatewayError } from "../../../src/core/errors.ts";
import { priceOf, requireValue } from "../../../src/parts/request-prices/price-of.ts";
import { parseMeasure, parseSource, type Rule } from "../../../src/parts/request-prices/rule.ts";
import type { AskedRequest } from "../../../src/x402/prices/request-prices.ts";

const usd = (text: string) => parseDollars(text, 18)?.amount ?? 0n;

function asked(given: {
  readonly body?: string | Uint8Array;
  readonly query?: string;
  readonly params?: AskedRequest["params"];
  readonly headers?: readonly (readonly [string, string])[];
  readonly path?: string;
}): AskedRequest {
  const { query = "", params = [], headers = [["content-type", "application/json"]] } = given;
  return {
    method: "POST",
    path: given.path ?? "/",
    query,
    params,
    body: Buffer.from((given.body ?? "") as string),
    client: "127.0.0.1",
    hash: "",
    headerValues: (name) => headers.filter(([one]) => one === name).map(([, value]) => value),
  };
}

function each(per: string, change: Partial<Rule & { kind: "each" }> = {}): Rule {
  const measure = parseMeasure(per);
  if (measure === undefined) throw new Error(per);
  return {
    kind: "each",
    measure,
    base: 0n,
    each: usd("$0.002"),
    min: usd("$0.01"),
    max: usd("$5"),
    ...change,
  };
}

function cases(of: string, other?: string): Rule {
  const source = parseSource(of);
  if (source === undefined) throw new Error(of);
  return {
    kind: "cases",
    of: source,
    cases: new Map([["kelvin", usd("$0.02")]]),
    other: other === undefined ? undefined : usd(other),
  };
}

/** Returns the price, or the code of the refusal. */
function outcome(rule: Rule, given: Parameters<typeof asked>[0], known: string[] = []): bigint | string {
  try {
    return priceOf(rule, asked(given), new Set(known)).amount;
  } catch (error) {
    return (error as GatewayError).code;
  }
}

const INVALID = "invalid_input";
const UNSUPPORTED = "unsupported_media_type";
const gzip: readonly (readonly [string, string])[] = [
  ["content-type", "application/json"],
  ["content-encoding", "gzip"],
];
const typed = (type: string) => [["content-type", type]] as const;

describe("A price for each unit", () => {
  it.each<[string, Rule, Parameters<typeof asked>[0], bigint | string]>([
    ["counts started KiB", each("body:KiB", { min: 0n }), { body: "x".repeat(1_025) }, usd("$0.004")],
    ["adds the base", each("body:KiB", { base: usd("$1") }), { body: "x" }, usd("$1.002")],
    ["is raised to min", each("body:KiB"), { body: "x" }, usd("$0.01")],
    ["can be max", each("json:/n"), { body: '{"n":2500}' }, usd("$5")],
    ["cannot be above max", each("json:/n"), { body: '{"n":2500.0000001}' }, INVALID],
    ["cannot be above max by 1e400", each("json:/n"), { body: '{"n":1e400}' }, INVALID],
    ["is min without body and query", each("json:/n"), {}, usd("$0.01")],
    ["needs the number", each("json:/n"), { body: "{}" }, INVALID],
    ["needs a number that is not negative", each("json:/n"), { body: '{"n":-0}' }, INVALID],
    ["needs a number, not a string", each("json:/n"), { body: '{"n":"5"}' }, INVALID],
    ["needs JSON", each("json:/n"), { body: "n=5" }, INVALID],
    ["needs JSON without a byte order mark", each("json:/n"), { body: '\ufeff{"n":5}' }, INVALID],
    ["needs UTF-8", each("json:/n"), { body: Buffer.from('{"n":5,"x":"\xe9"}', "latin1") }, INVALID],
    ["refuses a key that is there twice", each("json:/n"), { body: '{"n":5,"n":5}' }, INVALID],
    ["refuses an encoded body", each("json:/n"), { body: '{"n":5}', headers: gzip }, UNSUPPORTED],
    ["refuses the size of an encoded body", each("body:KiB"), { body: "x", headers: gzip }, UNSUPPORTED],
    [
      "refuses a form",
      each("json:/n"),
      { body: '{"n":5}', headers: typed("application/x-www-form-urlencoded") },
      UNSUPPORTED,
    ],
    [
      "refuses another charset",
      each("json:/n"),
      { body: '{"n":5}', headers: typed("application/json; charset=utf-16") },
      UNSUPPORTED,
    ],
    ["refuses a body without a type", each("json:/n"), { body: '{"n":5}', headers: [] }, UNSUPPORTED],
    [
      "refuses two types",
      each("json:/n"),
      { body: '{"n":5}', headers: [...typed("application/json"), ...typed("text/plain")] },
      UNSUPPORTED,
    ],
    [
      "takes +json in UTF-8",
      each("json:/n"),
      { body: '{"n":5}', headers: typed('application/ld+json; charset="UTF-8"') },
      usd("$0.01"),
    ],
    ["reads a number of the query", each("query:n"), { query: "n=6" }, usd("$0.012")],
    ["reads no exponent in the query", each("query:n"), { query: "n=6e1" }, INVALID],
    ["reads no hexadecimal in the query", each("query:n"), { query: "n=0x6" }, INVALID],
    [
      "counts characters of the query",
      each("query:q:characters"),
      { query: "q=%F0%9F%8E%88abcde" },
      usd("$0.012"),
    ],
    [
      "is exact below a double's reach",
      each("json:/n", { each: 1n, min: 0n }),
      { body: '{"n":9007199254740993}' },
      9_007_199_254_740_993n,
    ],
  ])("%s", (_, rule, given, price) => {
    expect(outcome(rule, given)).toBe(price);
  });

  it("is the exact product for every decimal, or refused above max", () => {
    const cents = fc.bigInt({ min: 1n, max: 10n ** 20n });
    fc.assert(
      fc.property(cents, cents, fc.nat(1_000_000), fc.nat(999), (base, each1, whole, thousandths) => {
        const max = usd("$5");
        const rule = each("json:/n", { base, each: each1, min: 0n, max });
        const n = `${whole}.${String(thousandths).padStart(3, "0")}`;
        const price = base + each1 * (BigInt(whole) + (thousandths > 0 ? 1n : 0n));
        expect(outcome(rule, { body: `{"n":${n}}` })).toBe(price > max ? INVALID : price);
      }),
    );
  });
});

describe("A price by tiers", () => {
  const measure = parseMeasure("json:/text:characters");
  if (measure === undefined) throw new Error("no measure");
  const tiers: Rule = {
    kind: "tiers",
    measure,
    tiers: [
      { upTo: 3n, price: 1n },
      { upTo: 5n, price: 2n },
    ],
  };
  it.each([
    ["", 1n],
    ["abc", 1n],
    ["abcd", 2n],
    ["🎈🎈🎈", 1n],
    ["e\u0301e\u0301", 2n],
    ["abcdef", INVALID],
  ])("Of %j is %s for the whole request", (text, price) => {
    expect(outcome(tiers, { body: JSON.stringify({ text }) })).toBe(price);
  });
});

describe("A price by cases", () => {
  it.each<[string, Rule, Parameters<typeof asked>[0], bigint | string]>([
    ["has the price of its case", cases("query:units", "$0.01"), { query: "units=%6belvin" }, usd("$0.02")],
    ["has the other price", cases("query:units", "$0.01"), { query: "units=Kelvin" }, usd("$0.01")],
    ["has the other price without the field", cases("query:units", "$0.01"), { query: "" }, usd("$0.01")],
    ["refuses an unknown value", cases("query:units"), { query: "units=c" }, INVALID],
    [
      "refuses a field that is there twice",
      cases("query:units", "$0.01"),
      { query: "units=c&%75nits=kelvin" },
      INVALID,
    ],
    [
      "refuses a field outside its input",
      cases("query:units", "$0.01"),
      { query: "units[]=kelvin" },
      INVALID,
    ],
    ["refuses a semicolon", cases("query:units", "$0.01"), { query: "x=c;units=kelvin" }, INVALID],
    ["refuses a plus", cases("query:units", "$0.01"), { query: "units=+kelvin" }, INVALID],
    [
      "refuses a value that ends at NUL",
      cases("query:units", "$0.01"),
      { query: "units=kelvin%00" },
      INVALID,
    ],
    ["refuses a space at an end", cases("query:units", "$0.01"), { query: "units=kelvin%20" }, INVALID],
    ["refuses a bad escape", cases("query:units", "$0.01"), { query: "units=%zz" }, INVALID],
    ["reads a string of JSON", cases("json:/units"), { body: '{"units":"kelvin"}' }, usd("$0.02")],
    [
      "refuses a string of JSON that ends in a control character",
      cases("json:/units", "$0.01"),
      { body: '{"units":"kelvin\\u0000"}' },
      INVALID,
    ],
    [
      "refuses more than 64 KiB of JSON",
      cases("json:/units", "$0.01"),
      { body: `{"units":"kelvin"}${" ".repeat(65_536)}` },
      INVALID,
    ],
    ["reads no number of JSON", cases("json:/units", "$0.01"), { body: '{"units":1}' }, INVALID],
    ["reads no null of JSON", cases("json:/units", "$0.01"), { body: '{"units":null}' }, INVALID],
    ["reads the path", cases("path:units"), { params: [["units", "kelvin"]] }, usd("$0.02")],
    ["reads a header", cases("header:x-units"), { headers: [["x-units", "kelvin"]] }, usd("$0.02")],
    [
      "refuses a header that is there twice",
      cases("header:x-units", "$0.01"),
      {
        headers: [
          ["x-units", "kelvin"],
          ["x-units", "c"],
        ],
      },
      INVALID,
    ],
    [
      "refuses a header of the connection",
      cases("header:x-units", "$0.01"),
      {
        headers: [
          ["x-units", "c"],
          ["connection", "close, X-Units"],
        ],
      },
      INVALID,
    ],
  ])("%s", (_, rule, given, price) => {
    expect(outcome(rule, given)).toBe(price);
  });

  it("has the lowest price, or the price of any other text, for a request that has nothing to read", () => {
    const bare = [each("header:x-units"), cases("header:x-units"), cases("header:x-units", "$0.03")];
    expect(bare.map((rule) => outcome(rule, { headers: [] }))).toEqual([
      usd("$0.01"),
      usd("$0.02"),
      usd("$0.03"),
    ]);
    const [ofNumber, ofText] = bare as [Rule, Rule];
    for (const given of [{ body: "x" }, { query: "a=1" }])
      expect([ofNumber, ofText].map((rule) => outcome(rule, { ...given, headers: [] }))).toEqual([
        INVALID,
        INVALID,
      ]);
    expect(outcome(ofText, { headers: [["x-units", "celsius"]] })).toBe(INVALID);
  });

  it("is not sold for a request that has nothing to read, unless that has a price of its own", () => {
    const problem = (rule: Rule, given: Parameters<typeof asked>[0]) => {
      try {
        requireValue(rule, asked(given));
        return undefined;
      } catch (error) {
        return (error as GatewayError).code;
      }
    };
    const bare = { headers: [] };
    const rules = ["header:x-units", "json:/units", "query:units"];
    expect(rules.map((of) => problem(each(of), bare))).toEqual([INVALID, INVALID, INVALID]);
    expect(rules.map((of) => problem(cases(of), bare))).toEqual([INVALID, INVALID, INVALID]);
    expect(rules.map((of) => problem(cases(of, "$0.03"), bare))).toEqual([undefined, undefined, undefined]);
    expect(problem(each("body:KiB"), bare)).toBeUndefined();
    expect(rules.map((of) => problem(each(of), { ...bare, body: "x" }))).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    expect(problem(each("header:x-units"), { headers: [["x-units", "1"]] })).toBeUndefined();
    const template = { params: [["units", "{units}"]] as const, path: "/a/%7Bunits%7D" };
    expect([outcome(cases("path:units"), template), problem(cases("path:units"), template)]).toEqual([
      usd("$0.02"),
      INVALID,
    ]);
    expect(problem(cases("path:units"), { path: "/a/kelvin" })).toBeUndefined();
  });

  it("takes further fields of the query that its input has", () => {
    expect(outcome(cases("query:units"), { query: "units=kelvin&day=2" }, ["day"])).toBe(usd("$0.02"));
  });
});

it.each([
  ["body:KiB", { body: "x".repeat(5_000) }, "The body is larger than 4 KiB"],
  [
    "json:/text:characters",
    { body: '{"text":"hello"}' },
    "/text in the JSON body has more than 4 characters",
  ],
  ["json:/n", { body: '{"n":5}' }, "/n in the JSON body is above 4"],
])("A request above the largest price by %s is refused with what is too large", (per, given, problem) => {
  const rule = each(per, { each: usd("$1"), max: usd("$4") });
  expect(() => priceOf(rule, asked(given), new Set())).toThrow(
    `${problem}, the most that one request can buy.`,
  );
});
