import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { z } from "zod";
import { configSchema } from "../../src/config/config.ts";
import { fileKey } from "../../src/config/key-path.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { mistakeText } from "../../src/config/mistakes.ts";

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

/** Every key that holds a value, as docs/configuration.md spells it: without array indexes. */
function keysOf(declared: z.core.$ZodType, path: string): DocumentedKey[] {
  const isRequired = !z.safeParse(declared, undefined).success;
  let schema = declared;
  while (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodPrefault
  ) {
    schema = schema.unwrap();
  }
  if (schema instanceof z.ZodObject) {
    return Object.entries<z.ZodType>(schema.shape).flatMap(([name, value]) =>
      keysOf(value, path === "" ? fileKey(name) : `${path}.${fileKey(name)}`),
    );
  }
  if (schema instanceof z.ZodArray && schema.element instanceof z.ZodObject) {
    return keysOf(schema.element, path);
  }
  if (schema instanceof z.ZodRecord) return [{ keyPath: `${path}.SERVICE_ID.JOB_INDEX`, isRequired: false }];
  const item = schema instanceof z.ZodArray ? schema.element : schema;
  // A value, or a table instead of it.
  const tables = item instanceof z.ZodUnion ? item.options.filter((it) => it instanceof z.ZodObject) : [];
  return [{ keyPath: path, isRequired }, ...tables.flatMap((table) => keysOf(table, path))];
}

test("docs/configuration.md lists exactly the keys of the schema, and which are required", async () => {
  const docs = await readFile(file("docs/configuration.md"), "utf8");
  const settings = docs.slice(0, docs.indexOf("## Options"));
  const documented = [...settings.matchAll(/^\| `([^`]+)` \| (.+) \| (.+) \|$/gm)].map(
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

test("jobgate.example.toml needs only the variables that its mistakes name", async () => {
  const result = await loadConfig({ path: file("jobgate.example.toml").pathname, env: {} });
  const named = result.ok ? [] : result.mistakes.map(({ message }) => /variable (\w+) is/.exec(message)?.[1]);
  expect(named).toEqual(Object.keys(EXAMPLE_ENV));
});
