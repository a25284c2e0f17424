import { expect, test } from "vitest";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { endpoint, startWebhooks } from "./harness.ts";

const NOW_MS = 1_790_000_000_000;
const HOUR_MS = 3_600_000;
const secrets = [
  { name: "2026", secret: "value-of-2026" },
  { name: "2025", secret: "value-of-2025" },
];

const webhooks = startBeforeAll(() => startWebhooks([endpoint("/a", { mode: "bearer", secrets })]));

test("Logs the name of the secret that was used: each use at debug, an old one at info once an hour", async () => {
  const lines = (level: number) =>
    webhooks.log
      .filter((line) => line.level === level && "secretName" in line)
      .map(({ endpoint: path, secretName }) => [path, secretName]);
  const use = async (secret: string, atMs: number) => {
    webhooks.now = NOW_MS + atMs;
    expect((await webhooks.post("/a", { authorization: `Bearer ${secret}` })).status).toBe(202);
  };
  const OLD = ["/a", "2025"];
  await use("value-of-2026", 0);
  expect(lines(30)).toEqual([]);
  await use("value-of-2025", 0);
  await use("value-of-2025", HOUR_MS - 1);
  expect(lines(30)).toEqual([OLD]);
  await use("value-of-2025", HOUR_MS);
  expect(lines(30)).toEqual([OLD, OLD]);
  expect(lines(20)).toEqual([["/a", "2026"], OLD, OLD, OLD]);
  expect(JSON.stringify(webhooks.log)).not.toContain("value-of");
});
