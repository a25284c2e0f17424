import { expect, it } from "vitest";
import { parseRoute, type Route } from "../../../src/core/route.ts";
import { requireBody } from "../../../src/parts/mcp/tools.ts";
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
