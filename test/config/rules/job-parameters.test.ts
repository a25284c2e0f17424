import { expect, test } from "vitest";
import { loadFiles, mistakesOf, TOKEN, X402 } from "../config-folder.ts";

const withQuery = (query: string, route = 'route = "GET /weather/{city}"') =>
  `${X402}${TOKEN}[[jobs]]\njob_index = 0\n${route}\nprice_wei = "1000000000000000"\ninput = { query = ${query} }\n`;

test("A job's query has JSON Schemas by name, and says nothing of the body", async () => {
  const query = '{ units = { enum = ["a"] }, days = { type = "integer", maximum = 7 }, required = ["days"] }';
  const result = await loadFiles({ "jobgate.toml": withQuery(query) });
  const [job] = (result.ok && result.config.x402?.jobs) || [];
  expect(job?.input).toBeUndefined();
  expect(job?.parameters).toEqual({
    properties: { units: { enum: ["a"] }, days: { type: "integer", maximum: 7 } },
    required: ["days"],
    additionalProperties: true,
  });
});

test.each([
  ["that is no table", "{ units = true }", ".units", /is no table; expected a table with a JSON Schema/],
  ["that does not compile", '{ units = { type = "objekt" } }', ".units", /is invalid: \/type must be/],
  ["with a reference", '{ units = { "$ref" = "#/a" } }', ".units", /has a reference/],
  [
    "that requires an unknown field",
    '{ units = {}, required = ["unit"] }',
    ".required",
    /is not an array of/,
  ],
  ["that requires a part of the path", '{ city = {}, required = ["city"] }', ".required", /is not an array/],
  ["that is not closed by a boolean", "{ additionalProperties = [] }", ".additionalProperties", /boolean/],
  ["of another kind", "{ units = 1 }", ".units", /is an integer; expected a table with a JSON Schema/],
])("A query %s is a mistake with its line", async (_, query, key, message) => {
  const [mistake, ...more] = await mistakesOf({ "jobgate.toml": withQuery(query) });
  expect(mistake?.place).toBe(`jobgate.toml:18 jobs[0].input.query${key}`);
  expect(mistake?.message).toMatch(message);
  expect(more).toEqual([]);
});

test("A query of a job without a route is a mistake", async () => {
  const [mistake] = await mistakesOf({ "jobgate.toml": withQuery("{ units = {} }", "") });
  expect(mistake?.message).toMatch(/is for a job that is sold at a route/);
});
