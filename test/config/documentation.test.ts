import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { z } from "zod";
import { loadConfig } from "../../src/config/load-config.ts";
import { mistakeText } from "../../src/config/mistake.ts";
import { configSchema } from "../../src/config/schema.ts";

const file = (name: string) => new URL(`../../${name}`, import.meta.url);
const EXAMPLE_ENV = {
  RUNNER_TOKEN: "r",
  OPERATOR_TOKEN: "o",
  ALERTS_SECRET: "a",
  EXCHANGE_KEY: "e",
  GITHUB_SECRET: "g",
  GITHUB_OLD_SECRET: "g",
  TRADINGVIEW_TOKEN: "0123456789abcdef0123456789abcdef",
  META_APP_SECRET: "m",
  META_VERIFY_TOKEN: "v",
};

interface DocumentedKey {
  readonly keyPath: string;
  readonly isRequired: boolean;
}

/** Every key that holds a value, as docs/configuration.md writes it: without array indexes. */
function keysOf(schema: z.ZodTypeAny, path: string, isRequired = true): DocumentedKey[] {
  if (schema instanceof z.ZodOptional) return keysOf(schema.unwrap(), path, false);
  if (schema instanceof z.ZodDefault) return keysOf(schema.removeDefault(), path, false);
  if (schema instanceof z.ZodArray) return keysOf(schema.element, path, isRequired);
  if (schema instanceof z.ZodRecord) return [{ keyPath: `${path}.SERVICE_ID.JOB_INDEX`, isRequired: false }];
  if (schema instanceof z.ZodUnion) {
    // A value, or a table in its place.
    const options = schema.options as readonly z.ZodTypeAny[];
    const tables = options.filter((option) => option instanceof z.ZodObject);
    return [{ keyPath: path, isRequired }, ...tables.flatMap((table) => keysOf(table, path))];
  }
  if (!(schema instanceof z.ZodObject)) return [{ keyPath: path, isRequired }];
  return Object.entries(schema.shape as Record<string, z.ZodTypeAny>).flatMap(([key, value]) =>
    keysOf(value, path === "" ? key : `${path}.${key}`),
  );
}

test("docs/configuration.md tells of every key, of no other, and says which are required", async () => {
  const docs = await readFile(file("docs/configuration.md"), "utf8");
  const settings = docs.slice(0, docs.indexOf("## Options"));
  const documented = [...settings.matchAll(/^\| `([^`]+)` \| (.+) \| (.+) \| (.+) \|$/gm)].map(
    ([, keyPath = "", , byDefault]) => ({ keyPath, isRequired: byDefault === "required" }),
  );
  const byPath = (a: DocumentedKey, b: DocumentedKey) => a.keyPath.localeCompare(b.keyPath);
  expect(documented.sort(byPath)).toEqual(keysOf(configSchema, "").sort(byPath));
});

test("jobgate.example.toml loads without mistakes or warnings", async () => {
  const path = file("jobgate.example.toml").pathname;
  const result = await loadConfig({ path, env: EXAMPLE_ENV });
  expect(result.ok ? result.warnings.map(mistakeText) : result.mistakes.map(mistakeText)).toEqual([]);
});

test("jobgate.example.toml asks only for variables that its mistakes name", async () => {
  const result = await loadConfig({ path: file("jobgate.example.toml").pathname, env: {} });
  const named = result.ok ? [] : result.mistakes.map(({ message }) => /variable (\w+) is/.exec(message)?.[1]);
  expect(named).toEqual(Object.keys(EXAMPLE_ENV));
});
