import fc from "fast-check";
import { afterAll, expect, it } from "vitest";
import type { Job } from "../../../src/config/config.ts";
import { monotonicClock } from "../../../src/core/clock.ts";
import { BodyChecks, InputChecks } from "../../../src/x402/purchase/input-checks.ts";
import { howMany } from "../../helpers/how-many.ts";
import { until } from "../../helpers/until.ts";
import { JOB } from "../payments.ts";

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
const isObject = (it: Json): it is { [key: string]: Json } =>
  typeof it === "object" && it !== null && !Array.isArray(it);
const has = (it: object, key: string) => Object.hasOwn(it, key);
const isInteger = (it: unknown) => Number.isInteger(it);
const length = (it: string) => [...it].length;

/** Each schema with the same condition in plain code. */
const SCHEMAS: readonly (readonly [schema: unknown, accepts: (it: Json) => boolean])[] = [
  [true, () => true],
  [false, () => false],
  [{ type: "object" }, isObject],
  [{ type: ["string", "null"] }, (it) => typeof it === "string" || it === null],
  [{ type: "object", required: ["a"] }, (it) => isObject(it) && has(it, "a")],
  [
    { type: "object", properties: { a: { type: "integer" } }, additionalProperties: false },
    (it) => isObject(it) && Object.entries(it).every(([key, value]) => key === "a" && isInteger(value)),
  ],
  [
    { type: "string", minLength: 2, maxLength: 4 },
    (it) => typeof it === "string" && length(it) >= 2 && length(it) <= 4,
  ],
  [{ type: "string", pattern: "^[ab]*$" }, (it) => typeof it === "string" && /^[ab]*$/u.test(it)],
  [
    { type: "number", minimum: -1, exclusiveMaximum: 3 },
    (it) => typeof it === "number" && it >= -1 && it < 3,
  ],
  [
    { type: "array", items: { type: "integer" }, uniqueItems: true, maxItems: 3 },
    (it) => Array.isArray(it) && it.length <= 3 && it.every(isInteger) && new Set(it).size === it.length,
  ],
  [{ enum: ["a", 1, null] }, (it) => it === "a" || it === 1 || it === null],
  [
    { $ref: "#/$defs/tree", $defs: { tree: { type: "array", items: { $ref: "#/$defs/tree" } } } },
    function isTree(it): boolean {
      return Array.isArray(it) && it.every(isTree);
    },
  ],
  [
    { anyOf: [{ type: "integer" }, { type: "object", required: ["b"] }], not: { const: 2 } },
    (it) => (isInteger(it) || (isObject(it) && has(it, "b"))) && it !== 2,
  ],
];

const json = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.constantFrom<Json>(null, true, 0, 1, 2, 3, -1, 1.5, "", "a", "ab", "abab", "ababa", "é"),
    fc.array(tie("value"), { maxLength: 4 }) as fc.Arbitrary<Json>,
    fc.dictionary(fc.constantFrom("a", "b", "toString", "__proto__"), tie("value"), {
      maxKeys: 3,
    }) as fc.Arbitrary<Json>,
  ),
})).value;

/** JSON, and bytes that mostly are none. */
const bodies = fc.oneof(
  { weight: 9, arbitrary: json.map((value) => Buffer.from(JSON.stringify(value))) },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes)) },
);

function parse(body: Buffer): Json | undefined {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body));
  } catch {
    return undefined;
  }
}

const request = { remoteAddress: "127.0.0.1", query: "", headerValues: () => [] };
/** Each check is another client's, because one client would use up its time on a busy machine. */
let clients = 0;
const parts = { bodies: new BodyChecks(monotonicClock), limits: { clientOf: () => `client ${clients++}` } };
afterAll(() => parts.bodies.stop());

/** Checks a body again while the refusal is that no time is left for checks. */
async function refusalOf(checks: InputChecks, body: Buffer) {
  const { refusal } = await until(async () => {
    const refusal = await checks.refusalOf(request, JOB, { body, params: [] });
    return refusal?.code !== "rate_limited" && { refusal };
  });
  return refusal;
}

const withSchema = (schema: unknown): Job => ({
  ...JOB,
  input: { contentType: "application/json", schema: JSON.stringify(schema) },
});

it.each(SCHEMAS)(
  "%j refuses exactly the bodies that the same condition in plain code refuses",
  async (schema, accepts) => {
    const checks = await InputChecks.compile({ jobs: [withSchema(schema)], maxBodyBytes: 1_048_576 }, parts);
    await fc.assert(
      fc.asyncProperty(bodies, async (body) => {
        const value = parse(body);
        const refusal = await refusalOf(checks, body);
        if (refusal !== undefined) expect(refusal.code).toBe("invalid_input");
        expect(refusal === undefined).toBe(value !== undefined && accepts(value));
      }),
      { numRuns: howMany(2_000, 10_000) },
    );
  },
);
