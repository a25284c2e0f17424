import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "../helpers/bundle.ts";
import { logEvents } from "./log-events.ts";
import { operatorPage } from "./operator-reference.ts";

const page = (name: string) => readFile(join(ROOT, "docs", name), "utf8");

test("docs/operator-api.md has the methods of operator.proto and the commands, as `npm run generate:docs` prints them", async () => {
  expect(await page("operator-api.md")).toBe(await operatorPage());
});

test("docs/log-events.md lists exactly what jobgate logs, with the levels", async () => {
  const rows = (await page("log-events.md")).matchAll(/^\| `(.+)` \| (fatal|error|warn|info|debug) \|/gm);
  const documented = [...rows].map(([, message, level]) => `${level}: ${message}`);
  const places = new Map(logEvents().map(({ level, message, at }) => [`${level}: ${message}`, at]));
  const missing = [...places].filter(([event]) => !documented.includes(event));
  expect(missing).toEqual([]);
  expect(documented.filter((event) => !places.has(event))).toEqual([]);
  expect(documented).toHaveLength(places.size);
});
