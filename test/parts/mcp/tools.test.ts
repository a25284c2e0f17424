import { expect, it } from "vitest";
import { parseRoute, type Route } from "../../../src/core/route.ts";
import { inputOf, requireBody, toTool } from "../../../src/parts/mcp/tools.ts";
import type { ListedJob } from "../../../src/x402/jobs/listing.ts";

const JOB: ListedJob = {
  ...{ serviceId: 1n, jobIndex: 0, mode: "public_paid", offers: [], schemes: ["exact"], requirements: [] },
  url: "https://shop.example/x402/jobs/1/0",
};
const TEXT = { contentType: "text/plain" };

it.each<[string, Partial<ListedJob>, object, boolean]>([
  ["a text that its tool requires", { input: TEXT }, {}, true],
  ["that text", { input: TEXT }, { body: "" }, false],
  ["the body of its route", { input: TEXT, route: parseRoute("POST /notes") as Route }, { query: {} }, true],
  ["a route without a body", { route: parseRoute("GET /notes") as Route }, {}, false],
  ["a body that is the arguments themselves", { input: { contentType: "application/json" } }, {}, false],
  ["a body that may be missing", {}, {}, false],
])("A purchase without a body is refused where the tool requires one: %s", (_, job, args, isRefused) => {
  const buy = () => requireBody(args, { ...JOB, ...job });
  if (isRefused) expect(buy).toThrow("arguments.body is missing. Nothing was charged.");
  else expect(buy).not.toThrow();
});

it.each<[string, object, object, string]>([
  ["an object", { type: "object", required: ["n"] }, { n: 1 }, '{"n":1}'],
  ["another value", { type: "number" }, { body: 1 }, "1"],
])("A tool whose price reads its JSON body takes what the price requires: %s", (_, schema, args, body) => {
  const usd = { unit: "usd", amount: 1n } as const;
  const range = { from: usd, upTo: usd, rule: "", headers: [], bodySchema: JSON.stringify(schema) };
  const tool: ListedJob = {
    ...JOB,
    input: { contentType: "application/json" },
    price: { priceWei: 1n, currency: "USD", range },
  };
  const { type } = schema as { readonly type: string };
  expect(toTool(tool, { promises: new Map() }).inputSchema).toMatchObject(
    type === "object" ? schema : { properties: { body: schema }, required: ["body"] },
  );
  const input = inputOf(args, tool, { tool, earlierHash: undefined, query: "" });
  expect(Buffer.from(input.body).toString()).toBe(body);
});
