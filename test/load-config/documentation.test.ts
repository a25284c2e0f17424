import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { z } from "zod";
import { withoutDefault } from "../../src/config/check-shape.ts";
import { schemaWith } from "../../src/config/load-config.ts";
import { fileKey, mistakeText } from "../../src/config/mistakes.ts";
import { notesOf } from "../../src/config/wrong-value.ts";
import { loadConfig } from "../../src/load-config.ts";
import { partKeys } from "../../src/load-parts.ts";
import { configurationPage, UNDESCRIBED } from "../docs/configuration-page.ts";

const file = (name: string) => new URL(`../../${name}`, import.meta.url);
const SECRET = "0123456789abcdef0123456789abcdef";
const EXAMPLE_ENV = {
  RUNNER_TOKEN: "r",
  PUSH_SECRET: `whsec_${"c2VjcmV0".repeat(4)}`,
  CALLBACK_SECRET: `whsec_${"c2VjcmV0".repeat(4)}`,
  OPERATOR_TOKEN: "o",
  ALERTS_SECRET: SECRET,
  EXCHANGE_KEY: SECRET,
  GITHUB_SECRET: SECRET,
  GITHUB_OLD_SECRET: SECRET,
  TRADINGVIEW_TOKEN: SECRET,
  META_APP_SECRET: SECRET,
  META_VERIFY_TOKEN: "v",
};

test("docs/configuration.md has each key of the schema and its default, as `npm run generate:docs` prints them, and its meaning", async () => {
  const page = await readFile(file("docs/configuration.md"), "utf8");
  expect(configurationPage(page)).toBe(page);
  expect(page).not.toContain(`| ${UNDESCRIBED} |`);
});

test("The page of the configuration gets a new key, and loses one that the schema has not", async () => {
  const page = await readFile(file("docs/configuration.md"), "utf8");
  const row = /^\| `store\.max_pending` \| .*\n/m.exec(page)?.[0] ?? "";
  const stale = "| `store.depth` | a key of long ago | none |\n";
  const [edited, wrong] = [page.replace(row, stale), row.replace("100_000", "7")];
  expect(configurationPage(edited)).toContain(`\n| \`store.max_pending\` | ${UNDESCRIBED} | \`100000\` |\n`);
  expect(configurationPage(edited)).not.toContain("store.depth");
  expect(configurationPage(page.replace(row, wrong))).toBe(page.replace("`100_000`", "`100000`"));
});

/** Paths of the keys that a reload does not change to every value, as their marks in the schema say. */
function markedKeys(declared: z.core.$ZodType, path = ""): string[] {
  const schema = withoutDefault(declared);
  const mark = notesOf(declared).mayChange ?? notesOf(schema).mayChange;
  const keys = schema instanceof z.ZodObject ? Object.entries<z.ZodType>(schema.shape) : [];
  const below = keys.flatMap(([name, value]) =>
    markedKeys(value, [path, fileKey(name)].join(".").replace(/^\./, "")),
  );
  return mark === undefined ? below : [path, ...below];
}

test("docs/configuration.md lists exactly the keys whose change can need a restart", async () => {
  const docs = await readFile(file("docs/configuration.md"), "utf8");
  const table = docs.slice(docs.indexOf("| needs a restart |"));
  const listed = [...table.matchAll(/^\| .+ \| (.+) \|$/gm)]
    // In parentheses are keys that decide about the keys before them.
    .flatMap(([, keys = ""]) => [...keys.replaceAll(/\([^)]*\)/g, "").matchAll(/`([^`]+)`/g)])
    .map(([, key]) => key);
  expect(listed.sort()).toEqual(markedKeys(schemaWith(partKeys())).sort());
});

const EXAMPLES = [
  "jobgate.example.toml",
  ...["express", "fastapi"].map((app) => `examples/api-${app}/jobgate.toml`),
];

test.each(EXAMPLES)("%s loads without mistakes or warnings", async (name) => {
  const path = file(name).pathname;
  const result = await loadConfig({ path, env: EXAMPLE_ENV });
  expect(result.ok ? result.warnings.map(mistakeText) : result.mistakes.map(mistakeText)).toEqual([]);
});

test("Prices in jobgate.example.toml are under the dollar that official clients pay at most", async () => {
  const result = await loadConfig({ path: file("jobgate.example.toml").pathname, env: EXAMPLE_ENV });
  const { x402 } = result.ok ? result.config : {};
  const dollarsPerEther = x402?.acceptedTokens.map(({ rate, markupBps }) =>
    rate && "ratePerNativeUnit" in rate ? Number(rate.ratePerNativeUnit) * (1 + markupBps / 10_000) : 0,
  );
  const prices = [...(x402?.jobPricing.values() ?? [])].map((wei) => Number(wei) / 1e18);
  expect(prices.length).toBeGreaterThan(0);
  expect(Math.max(...prices) * Math.max(...(dollarsPerEther ?? []))).toBeLessThan(1);
});

test("jobgate.example.toml needs only the variables that its mistakes name", async () => {
  const result = await loadConfig({ path: file("jobgate.example.toml").pathname, env: {} });
  const named = result.ok ? [] : result.mistakes.map(({ message }) => /variable (\w+) is/.exec(message)?.[1]);
  expect(named).toEqual(Object.keys(EXAMPLE_ENV));
});
