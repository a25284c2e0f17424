import { expect, it } from "vitest";
import { bodySchemaOf } from "../../../src/parts/request-prices/prices-by-rule.ts";
import { parseMeasure, parseSource, type Rule, type Source } from "../../../src/parts/request-prices/rule.ts";

const tiers = (per: string) =>
  bodySchemaOf({
    kind: "tiers",
    measure: parseMeasure(per) as NonNullable<ReturnType<typeof parseMeasure>>,
    tiers: [{ upTo: undefined, price: 1n }],
  });
const cases = (of: string, other?: bigint) =>
  bodySchemaOf({
    kind: "cases",
    of: parseSource(of) as Source,
    cases: new Map([
      ["a", 1n],
      ["b", 2n],
    ]),
    other,
  } satisfies Rule);
const object = (name: string, value: object, more: object = { required: [name] }) => ({
  ...{ type: "object", properties: { [name]: value } },
  ...more,
  additionalProperties: true,
});

it.each([
  ["a number", tiers("json:/n"), object("n", { type: "number", minimum: 0 })],
  ["a text in an object", tiers("json:/a/b:characters"), object("a", object("b", { type: "string" }))],
  ["one of the texts for sale", cases("json:/kind"), object("kind", { type: "string", enum: ["a", "b"] })],
  ["any text, or none", cases("json:/kind", 3n), object("kind", { type: "string" }, {})],
  ["a member of an object or an array", tiers("json:/all/0"), object("all", {})],
  ["the whole body", tiers("json:"), { type: "number", minimum: 0 }],
])("The schema of a body requires what its price reads: %s", (_, schema, expected) => {
  expect(JSON.parse(String(schema))).toEqual(expected);
});

it("A price that reads no value in the body has no schema of the body", () => {
  expect([tiers("body:KiB"), tiers("query:n"), cases("header:x-tier")]).toEqual(Array(3).fill(undefined));
});
