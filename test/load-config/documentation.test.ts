import { readFile } from "node:fs/promises";
import { formatUnits } from "viem";
import { expect, test } from "vitest";
import { z } from "zod";
import { withoutDefault } from "../../src/config/check-shape.ts";
import { schemaWith } from "../../src/config/load-config.ts";
import { fileKey, mistakeText } from "../../src/config/mistakes.ts";
import { notesOf } from "../../src/config/wrong-value.ts";
import { loadConfig } from "../../src/load-config.ts";
import { partKeys } from "../../src/load-parts.ts";

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

/** Documented names of keys that operators choose. */
const RECORD_KEYS: Record<string, string> = {
  job_pricing: "SERVICE_ID.JOB_INDEX",
  "apis.headers": "NAME",
  "jobs.input.query": "NAME",
  "jobs.price.cases": "TEXT",
  "x402.facilitators.auth.headers": "NAME",
  "x402.facilitators.fee_payers": "NETWORK",
  "x402.facilitators.rpc_urls": "NETWORK",
  "x402.refunds.accounts": "NETWORK",
};

interface DocumentedKey {
  readonly keyPath: string;
  readonly isRequired: boolean;
}

interface SchemaKey extends DocumentedKey {
  /** The default as the schema has it, or undefined. */
  readonly byDefault: unknown;
}

/** Every key that holds a value, as docs/configuration.md spells it: without array indexes. */
function keysOf(declared: z.core.$ZodType, path: string): SchemaKey[] {
  const isRequired = !z.safeParse(declared, undefined).success;
  let schema = declared;
  let byDefault: unknown;
  while (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodPrefault
  ) {
    if (!(schema instanceof z.ZodOptional)) byDefault = schema.def.defaultValue;
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
  if (schema instanceof z.ZodRecord)
    return [{ keyPath: `${path}.${RECORD_KEYS[path]}`, isRequired: false, byDefault: undefined }];
  const item = schema instanceof z.ZodArray ? schema.element : schema;
  // A value, or a table instead of it.
  const tables = item instanceof z.ZodUnion ? item.options.filter((it) => it instanceof z.ZodObject) : [];
  return [{ keyPath: path, isRequired, byDefault }, ...tables.flatMap((table) => keysOf(table, path))];
}

/** Rows of docs/configuration.md about keys. */
async function documentedKeys(): Promise<{ keyPath: string; byDefault: string }[]> {
  const docs = await readFile(file("docs/configuration.md"), "utf8");
  const settings = docs.slice(0, docs.indexOf("## Options"));
  return [...settings.matchAll(/^\| `([^`]+)` \| (.+) \| (.+) \|$/gm)].map(
    ([, keyPath = "", , byDefault = ""]) => ({ keyPath, byDefault }),
  );
}

test("docs/configuration.md lists exactly the keys of the schema, and which are required", async () => {
  const documented = (await documentedKeys()).map(({ keyPath, byDefault }) => ({
    keyPath,
    isRequired: byDefault === "required",
  }));
  const declared = keysOf(schemaWith(partKeys()), "").map(({ keyPath, isRequired }) => ({
    keyPath,
    isRequired,
  }));
  const byPath = (a: DocumentedKey, b: DocumentedKey) => a.keyPath.localeCompare(b.keyPath);
  expect(documented.sort(byPath)).toEqual(declared.sort(byPath));
});

/** Ways in which a file can spell a default: durations are kept in seconds or milliseconds, and amounts in wei. */
function spellings({ keyPath, byDefault }: SchemaKey): string[] {
  if (keyPath.endsWith("_secs")) return [`${byDefault}`, `${Number(byDefault) / 1_000}`];
  if (typeof byDefault !== "bigint") return [JSON.stringify(byDefault)];
  return [9, 18].map((decimals) => JSON.stringify(formatUnits(byDefault, decimals)));
}

test("docs/configuration.md gives each key the default of the schema", async () => {
  const documented = new Map((await documentedKeys()).map(({ keyPath, byDefault }) => [keyPath, byDefault]));
  const declared = keysOf(schemaWith(partKeys()), "").filter(({ byDefault }) => byDefault !== undefined);
  const wrong = declared.filter((key) => {
    const [, shown = ""] = /^`([^`]+)`/.exec(documented.get(key.keyPath) ?? "") ?? [];
    const plain = shown.replaceAll(/(?<=\d)_(?=\d)|(?<=,) /g, "");
    return !spellings(key).includes(plain);
  });
  expect(wrong.map((key) => [key.keyPath, documented.get(key.keyPath), spellings(key)])).toEqual([]);
  expect(declared.length).toBeGreaterThan(50);
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
