import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { formatUnits } from "viem";
import { z } from "zod";
import { schemaWith } from "../../src/config/load-config.ts";
import { fileKey } from "../../src/config/mistakes.ts";
import { partKeys } from "../../src/load-parts.ts";
import { ROOT } from "../helpers/bundle.ts";

/*
 * Makes the tables of docs/configuration.md: the schema gives the keys, which of them are required, and the defaults. What a
 * key means, and a default that depends on other keys, is written by hand. `npm run generate:docs` writes the page.
 */

const PAGE = join(ROOT, "docs/configuration.md");
/** Heading that the tables of keys end at. */
const END = "## Options";
/** Meaning of a key that nobody has described yet. */
export const UNDESCRIBED = "?";

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

interface SchemaKey {
  readonly keyPath: string;
  readonly isRequired: boolean;
  /** The default as the schema has it, or undefined. */
  readonly byDefault: unknown;
}

/** Returns every key that holds a value, as the page spells it: without array indexes. */
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

/** Returns the ways in which a file can spell a default: durations are kept in seconds or milliseconds, and amounts in wei. */
function spellings({ keyPath, byDefault }: SchemaKey): string[] {
  if (keyPath.endsWith("_secs")) return [`${byDefault}`, `${Number(byDefault) / 1_000}`];
  if (typeof byDefault !== "bigint") return [JSON.stringify(byDefault)];
  return [9, 18].map((decimals) => JSON.stringify(formatUnits(byDefault, decimals)));
}

/** Returns the cell of the default. @param shown cell of the page, which may spell the default in another way, or explain it */
function defaultCell(key: SchemaKey, shown: string): string {
  if (key.isRequired) return "required";
  if (key.byDefault === undefined) return shown === "required" ? "none" : shown;
  const [literal = "", value = ""] = /^`([^`]+)`/.exec(shown) ?? [];
  const plain = value.replaceAll(/(?<=\d)_(?=\d)|(?<=,) /g, "");
  const all = spellings(key);
  if (all.includes(plain)) return shown;
  const explained = ["none", "required"].includes(shown) ? "" : shown.slice(literal.length);
  return `\`${all[0]}\`${explained}`;
}

const rowOf = (key: SchemaKey, meaning: string, shown: string) =>
  `| \`${key.keyPath}\` | ${meaning} | ${defaultCell(key, shown)} |`;

/** Returns docs/configuration.md as it should be. @param page as it is */
export function configurationPage(page = readFileSync(PAGE, "utf8")): string {
  const end = page.indexOf(END);
  const left = new Map(keysOf(schemaWith(partKeys()), "").map((key) => [key.keyPath, key]));
  const lines = page
    .slice(0, end)
    .split("\n")
    .flatMap((line) => {
      const [, keyPath = "", meaning = "", shown = ""] = /^\| `([^`]+)` \| (.+) \| (.+) \|$/.exec(line) ?? [];
      if (keyPath === "") return [line];
      const key = left.get(keyPath);
      left.delete(keyPath);
      return key === undefined ? [] : [rowOf(key, meaning, shown)];
    });
  for (const key of left.values())
    lines.splice(lastRowBeside(key.keyPath, lines) + 1, 0, rowOf(key, UNDESCRIBED, "none"));
  return lines.join("\n") + page.slice(end);
}

/** Returns the last line with a key of the same table, or of the tables around it; -1 for a key of no table that the page has. */
function lastRowBeside(keyPath: string, lines: readonly string[]): number {
  const parts = keyPath.split(".").slice(0, -1);
  for (; parts.length > 0; parts.pop()) {
    const found = lines.findLastIndex((line) => line.startsWith(`| \`${parts.join(".")}.`));
    if (found !== -1) return found;
  }
  return lines.findLastIndex((line) => /^\| `\w+` \| /.test(line));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(PAGE, configurationPage());
