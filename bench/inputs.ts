import { BodySchema } from "../src/core/body-schema.ts";
import { percentile } from "./load.ts";

const BODY_BYTES = 16_384;
const CHECKS = 1_000;

const ITEM = {
  type: "object",
  required: ["id", "text"],
  properties: { id: { type: "integer" }, text: { type: "string", maxLength: 40 } },
  additionalProperties: false,
};
const TREE = { anyOf: [{ type: "integer" }, { type: "array", items: { $ref: "#/$defs/tree" } }] };

const item = { id: 1, text: "a sentence to sum up" };
const text = "the quick brown fox ".repeat(BODY_BYTES / 20);
const manyKeys = Object.fromEntries(Array.from({ length: 1_600 }, (_, i) => [`k${i}`, 1]));
const distinctItems = Array.from({ length: 450 }, (_, id) => ({ id, text: "a sentence" }));

/** Schemas, each with a body that matches, and one that fails, most of them in as many places as fit. */
const CASES: Readonly<Record<string, readonly [schema: unknown, matching: unknown, failing: unknown]>> = {
  "one text": [{ required: ["text"], properties: { text: { type: "string" } } }, { text }, { texts: text }],
  maxLength: [{ maxLength: BODY_BYTES }, text, `${text}${text}`],
  "list of objects": [{ items: ITEM }, filledWith(item), filledWith({ id: "a", txt: "b", x: 1 })],
  "list of numbers": [{ items: { minimum: 0, maximum: 9 } }, filledWith(5), filledWith(99)],
  "list of strings": [{ items: { type: "string" } }, filledWith("a"), filledWith(0)],
  enum: [{ items: { enum: ["red", "green", "blue"] } }, filledWith("blue"), filledWith("grey")],
  oneOf: [{ items: { oneOf: [{ type: "string" }, ITEM] } }, filledWith(item), filledWith(null)],
  anyOf: [{ items: { anyOf: [ITEM, { items: ITEM }] } }, filledWith([item]), filledWith([{}])],
  additionalProperties: [{ properties: { text: {} }, additionalProperties: false }, { text }, manyKeys],
  unevaluatedProperties: [{ properties: { text: {} }, unevaluatedProperties: false }, { text }, manyKeys],
  pattern: [{ items: { pattern: "^[a-z]+@[a-z]+[.]com$" } }, filledWith("a@b.com"), filledWith("a@b.net")],
  recursion: [{ $ref: "#/$defs/tree", $defs: { tree: TREE } }, filledWith([[1, 2]]), filledWith([["a"]])],
  uniqueItems: [{ uniqueItems: true }, distinctItems, filledWith(item)],
};

function filledWith(value: unknown): unknown[] {
  const count = Math.floor((BODY_BYTES - 2) / (JSON.stringify(value).length + 1));
  return Array.from({ length: count }, () => value);
}

/** Measures checks of bodies against schemas, beside parsing the same body. */
export async function benchInputs(): Promise<void> {
  console.log(`\nChecks of bodies of about ${BODY_BYTES / 1024} KiB against a JSON Schema`);
  const rows: object[] = [];
  for (const [name, [schema, matching, failing]] of Object.entries(CASES)) {
    const compiled = await BodySchema.compile(JSON.stringify(schema));
    for (const [kind, value] of Object.entries({ matches: matching, fails: failing })) {
      const body = Buffer.from(JSON.stringify(value));
      if ((compiled.check(body).length === 0) !== (kind === "matches"))
        throw new Error(`${name}: not ${kind}`);
      const parses = time(() => JSON.parse(body.toString()));
      const checks = time(() => compiled.check(body));
      rows.push({
        schema: name,
        body: kind,
        "p50 ms": percentile(checks, 0.5).toFixed(3),
        "p99 ms": percentile(checks, 0.99).toFixed(3),
        "of JSON.parse": (percentile(checks, 0.5) / percentile(parses, 0.5)).toFixed(1),
      });
    }
  }
  console.table(rows);
}

/** Returns the milliseconds of each run. */
function time(work: () => unknown): number[] {
  return Array.from({ length: CHECKS }, () => {
    const from = performance.now();
    work();
    return performance.now() - from;
  });
}
