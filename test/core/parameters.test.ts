import { describe, expect, it, test } from "vitest";
import { NO_PARAMETERS, ParameterReader, type Parameters } from "../../src/core/parameters.ts";
import { parseRoute, type Route } from "../../src/core/route.ts";

const ROUTE = parseRoute("GET /weather/{city}") as Route;
const properties = {
  city: { type: "string", maxLength: 10 },
  days: { type: "integer" },
  at: { type: "number" },
  all: { type: "boolean" },
  tag: { type: "array", items: { type: "integer" } },
  units: { enum: ["metric", "kelvin"] },
};

function read(query: string, parameters: Partial<Parameters> = {}) {
  const reader = new ParameterReader(ROUTE, { ...NO_PARAMETERS, properties, ...parameters });
  const given = reader.read([["city", "Paris"]], query);
  return "json" in given ? JSON.parse(given.json) : given;
}

describe("The parameters of a request", () => {
  test.each<[query: string, fields: object]>([
    ["", {}],
    ["units=metric", { units: "metric" }],
    ["days=3&at=-1.5&all=true", { days: 3, at: -1.5, all: true }],
    ["days=03", { days: "03" }],
    ["days=1e3", { days: "1e3" }],
    ["days=0x10", { days: "0x10" }],
    ["days=", { days: "" }],
    ["days=9007199254740993", { days: "9007199254740993" }],
    ["days=1.0", { days: 1 }],
    ["days=1.00000000000000000001", { days: "1.00000000000000000001" }],
    ["at=0.30000000000000004", { at: 0.30000000000000004 }],
    ["all=1", { all: "1" }],
    ["tag=1&tag=2", { tag: [1, 2] }],
    ["tag=1", { tag: [1] }],
    ["%75nits=a+b%2B", { units: "a b+" }],
    ["city=Rome&other=1&other=2&__proto__=1", {}],
  ])("%j has the fields %j", (query, fields) => {
    expect(read(query)).toEqual({ path: { city: "Paris" }, query: fields });
  });

  it("have a field once, unless it is an array", () => {
    const twice = { path: "/query/units", message: "is there more than once" };
    expect(read("units=metric&%75nits=metric")).toEqual(twice);
  });

  it("have every field if others are refused", () => {
    expect(read("other=1", { additionalProperties: false }).query).toEqual({ other: "1" });
  });
});
