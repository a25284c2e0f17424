import { describe, expect, it, test } from "vitest";
import { parseRoute, type Route } from "../../../src/core/route.ts";
import { requestAt, routeSchema } from "../../../src/x402/jobs/route-arguments.ts";

const at = (text: string) => parseRoute(text) as Route;
const WEATHER = at("GET|POST /weather/{city}");
const JSON_INPUT = { contentType: "application/json" };
const TEXT_INPUT = { ...JSON_INPUT, contentType: "text/csv" };

function shown(route: Route, args: object, input?: typeof JSON_INPUT): string {
  const { method, path, query, body, contentType } = requestAt(route, input, args);
  return [method, `${path}?${query}`, contentType, Buffer.from(body).toString()].filter(Boolean).join(" ");
}

describe("The request of a tool at a route", () => {
  test.each<[args: object, request: string]>([
    [{ path: { city: "Paris" } }, "GET /weather/Paris?"],
    [
      { path: { city: "São Paulo" }, query: { units: "a b+c", days: 3 } },
      "GET /weather/S%C3%A3o%20Paulo?units=a%20b%2Bc&days=3",
    ],
    [{ path: { city: 7 }, query: { tag: ["a", "b"], all: true } }, "GET /weather/7?tag=a&tag=b&all=true"],
    [{ path: { city: "a/b" } }, "GET /weather/a%2Fb?"],
    [{ path: { city: "Paris" }, body: "text" }, "POST /weather/Paris? text/plain; charset=utf-8 text"],
    [{ path: { city: "Paris" }, body: { a: 1 } }, 'POST /weather/Paris? application/json {"a":1}'],
  ])("%j is %s", (args, request) => {
    expect(shown(WEATHER, args)).toBe(request);
  });

  it("has all segments of a rest parameter", () => {
    expect(shown(at("GET /files/{path...}"), { path: { path: "a/b c" } })).toBe("GET /files/a/b%20c?");
  });

  it("has a body of the type that the job takes", () => {
    const notes = at("POST /notes");
    expect(shown(notes, { body: "a" }, JSON_INPUT)).toBe('POST /notes? application/json "a"');
    expect(shown(notes, { body: "a,b" }, TEXT_INPUT)).toBe("POST /notes? text/csv a,b");
    expect(shown(notes, {})).toBe("POST /notes?");
  });

  test.each<[route: string, args: unknown, problem: RegExp]>([
    ["GET /weather/{city}", {}, /path\.city/],
    ["GET /weather/{city}", { path: { city: "" } }, /path\.city/],
    ["GET /weather/{city}", { path: { city: "a", country: "b" } }, /path\.country.*no such parameter/],
    ["GET /weather/{city}", { path: { city: "a" }, body: "b" }, /body/],
    ["GET /weather/{city}", { path: { city: "a" }, headers: {} }, /arguments/],
    ["GET /weather/{city}", { path: { city: ["a"] } }, /path\.city/],
    ["GET /weather/{city}", { path: { city: "a" }, query: { b: {} } }, /query\.b/],
    ["GET /weather/{city}", "Paris", /arguments/],
  ])("is refused: %s %j", (route, args, problem) => {
    expect(() => requestAt(at(route), undefined, args)).toThrow(problem);
  });
});

test("The schema of a tool at a route has a body only if a method takes one", () => {
  const schema = (route: string) =>
    routeSchema(at(route), undefined) as { properties: object; required?: string[] };
  expect(Object.keys(schema("GET /a").properties)).toEqual(["query"]);
  expect(Object.keys(schema("PUT|GET /a/{b}").properties)).toEqual(["path", "query", "body"]);
  expect(schema("GET /a/{b}").required).toEqual(["path"]);
});

test("The schema of a tool at a route has the schemas of the job's parameters", () => {
  const units = { enum: ["metric"] };
  const city = { type: "string", maxLength: 10 };
  const parameters = { properties: { units, city }, required: ["units"], additionalProperties: false };
  expect(routeSchema(WEATHER, undefined, parameters)).toMatchObject({
    properties: {
      path: { properties: { city } },
      query: { properties: { units }, required: ["units"], additionalProperties: false },
    },
    required: ["path", "query"],
  });
});
