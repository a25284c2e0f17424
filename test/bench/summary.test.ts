import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import committed from "../../bench/committed.json" with { type: "json" };
import { performancePage } from "../../bench/summary.ts";

const PAGE = new URL("../../docs/performance.md", import.meta.url);

test("docs/performance.md has the committed ratios, as `npm run bench -- --commit` writes them", async () => {
  const page = await readFile(PAGE, "utf8");
  expect(performancePage(page, committed)).toBe(page);
});

test("The page of the performance gets each committed ratio in the place of the earlier ones", async () => {
  const page = await readFile(PAGE, "utf8");
  const [, table] = performancePage(page, { "CPU of a start": 1.5, "jobs/s": 0.25 }).split(
    "\n\n| figure of ",
  );
  expect(table?.split("\n\n")[0]).toBe(
    "`npm run bench` | ratio |\n|---|---|\n| CPU of a start | 1.50 |\n| jobs/s | 0.25 |",
  );
});
