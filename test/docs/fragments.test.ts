import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse, stringify, type TomlTable } from "smol-toml";
import { expect, test } from "vitest";
import { loadFiles } from "../config/config-folder.ts";
import { ROOT } from "../helpers/bundle.ts";

/** A configuration that lacks nothing, to which a page's block is added. */
const BASE = parse(`
service_id = 1
[x402]
public_url = "https://operator.example.com"
[[x402.accepted_tokens]]
token = "USDC"
network = "base"
pay_to = "0x1111111111111111111111111111111111111111"
rpc_url = "https://base.example.com"
[[apis]]
name = "model"
url = "http://127.0.0.1:8000"
`);
/** Mistakes of what a page leaves to its reader: files, keys of services, and the tables that other blocks have. */
const LEFT_TO_READERS = [
  /^names .* which cannot be read: no such file;/,
  /^is not a (?:Standard Webhooks|CDP) key;/,
  /^has 32 hex digits /,
  /^has nothing to serve; expected a local facilitator/,
  /^is missing; expected an integer from 0 to 4294967295, or a route$/,
  /^is missing; expected the RPC to send refunds through,/,
  /^is missing; expected an absolute http:\/\/ or https:\/\/ URL .*, or \[\[x402\.facilitators\]\]$/,
  /^have no rate, so none can be offered for a price in wei;/,
  /^is "https:\/\/…", /,
];

const PAGES = execFileSync("git", ["ls-files", "*.md"], { cwd: ROOT, encoding: "utf8" }).trim().split("\n");
/** Blocks that are part of a configuration. A whole one begins with the name of its file, and is loaded by another test. */
const FRAGMENTS = PAGES.filter((page) => !page.startsWith("clients/")).flatMap((page) =>
  [...readFileSync(join(ROOT, page), "utf8").matchAll(/^```toml\n([^`]*)```$/gm)]
    .map(([, toml = ""]) => toml)
    .filter((toml) => !toml.startsWith("# jobgate.toml\n"))
    .flatMap((toml) => (/^\[/m.test(toml) ? toml : pricesIn(toml)))
    .map((toml, i) => ({ page, nth: i + 1, toml })),
);

/** Returns a job for each line of a block that lists prices to choose from. */
function pricesIn(toml: string): string[] {
  const job = '[[jobs]]\nroute = "POST /draw"\nmode = "public_paid"\n';
  return toml
    .trim()
    .split("\n")
    .map((price) => `${job}${price}\n`);
}

/** Adds a block as TOML does: `[a.b]` behind `[[a]]` is a table of the last entry of `a`. */
function merged(base: TomlTable, added: TomlTable): TomlTable {
  const result = { ...base };
  for (const [key, value] of Object.entries(added)) {
    const before = result[key];
    if (!isTable(value)) result[key] = value;
    else if (Array.isArray(before)) result[key] = [merged(before.at(-1) as TomlTable, value)];
    else result[key] = isTable(before) ? merged(before, value) : value;
  }
  return result;
}

function isTable(value: unknown): value is TomlTable {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

test.each(FRAGMENTS)(
  "Block $nth of $page has keys and values that a configuration takes",
  async ({ toml }) => {
    const added = parse(toml.replaceAll('"0x…"', `"0x${"1".repeat(40)}"`));
    const env = Object.fromEntries(
      [...toml.matchAll(/"env:(\w+)"/g)].map(([, name = ""]) => [name, "a".repeat(32)]),
    );
    const result = await loadFiles(stringify(merged(BASE, added)), { env });
    const mistakes = result.ok ? [] : result.mistakes;
    expect(mistakes.filter(({ message }) => !LEFT_TO_READERS.some((left) => left.test(message)))).toEqual([]);
  },
);
