import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "../helpers/bundle.ts";

/** Factors of the units in docs/limits.md, to bytes and to milliseconds. */
const UNITS: Readonly<Record<string, number>> = {
  "": 1,
  characters: 1,
  KiB: 1_024,
  MiB: 1_048_576,
  ms: 1,
  s: 1_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};
const TIMES = new Set(["ms", "s", "min", "h", "d"]);

const page = readFileSync(join(ROOT, "docs/limits.md"), "utf8");
const LIMITS = [...page.matchAll(/^\| (.+) \| ([\d,]+) ?(\w*) \| .* \| `(\S+)#(\w+)` \|$/gm)].map(
  ([, limit = "", value = "", unit = "", file = "", name = ""]) => ({ limit, value, unit, file, name }),
);

/** Reads a constant, or a property of one, that is a product of numbers. */
function constantOf(file: string, name: string): number | undefined {
  const source = readFileSync(join(ROOT, "src", file), "utf8");
  const [, product] = new RegExp(`\\b${name}(?: =|:) ([\\d_]+(?: \\* [\\d_]+)*)[;,\\n]`).exec(source) ?? [];
  return product?.split(" * ").reduce((all, factor) => all * Number(factor.replaceAll("_", "")), 1);
}

test("docs/limits.md has a value and a constant in each row", () => {
  const rows = page.split("\n").filter((line) => line.startsWith("| ") && !line.startsWith("| limit "));
  expect(LIMITS).toHaveLength(rows.length);
  expect(LIMITS.length).toBeGreaterThan(90);
});

test.each(LIMITS)("docs/limits.md has the value of $name in $file: $limit", ({ value, unit, file, name }) => {
  const isSeconds = TIMES.has(unit) && /_(?:SECS|SECONDS)(?:_|$)/.test(name);
  const documented = Number(value.replaceAll(",", "")) * (UNITS[unit] ?? Number.NaN);
  expect(isSeconds ? documented / 1_000 : documented).toBe(constantOf(file, name));
});

test("docs/limits.md names each limit once", () => {
  const names = LIMITS.map(({ file, name }) => `${file}#${name}`);
  expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
});

test("docs/limits.md has every bound on runners' requests", () => {
  const source = readFileSync(join(ROOT, "src/delivery/runner-requests.ts"), "utf8");
  const [, table = ""] = /RUNNER_LIMITS = \{([\s\S]*?)\} as const/.exec(source) ?? [];
  const numbers = [...table.matchAll(/^ {2}(\w+): [\d_]/gm)].map(([, name]) => name);
  expect(numbers.filter((name) => !LIMITS.some((limit) => limit.name === name))).toEqual([]);
});
