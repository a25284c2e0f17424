import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import type { Part } from "../src/part.ts";
import * as parts from "../src/parts.ts";
import { loadFiles } from "./config/config-folder.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const PAGES = execFileSync("git", ["ls-files", "*.md"], { cwd: ROOT, encoding: "utf8" }).trim().split("\n");

/** Anchor that a heading gets where the page is shown. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replace(/\s/g, "-");
}

function anchorsIn(path: string): string[] {
  return [...readFileSync(path, "utf8").matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) => anchorOf(heading));
}

test.each(PAGES)("Every relative link of %s leads to a file, and to a heading in it", (page) => {
  const text = readFileSync(join(ROOT, page), "utf8");
  const broken = [...text.matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g)]
    .map(([, path = "", anchor]) => ({ path, anchor }))
    .filter(({ path, anchor }) => {
      const target = path === "" ? join(ROOT, page) : join(ROOT, dirname(page), path);
      if (!existsSync(target)) return true;
      return anchor !== undefined && target.endsWith(".md") && !anchorsIn(target).includes(anchor);
    });
  expect(broken).toEqual([]);
});

test("The npm package holds every file that its own pages link to", () => {
  const { files } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { files: string[] };
  const packed = ["README.md", "LICENSE", "package.json", ...files];
  const isPacked = (path: string) => packed.some((entry) => path === entry || path.startsWith(`${entry}/`));
  const missing = PAGES.filter(isPacked).flatMap((page) =>
    [...readFileSync(join(ROOT, page), "utf8").matchAll(/\]\((?!https?:)([^)#]+)/g)]
      .map(([, path = ""]) => join(dirname(page), path).replace(/\/$/, ""))
      .filter((path) => !isPacked(path))
      .map((path) => `${page} links to ${path}`),
  );
  expect(missing).toEqual([]);
});

test.each(PAGES)("Every file of the repository that %s names exists", (page) => {
  const text = readFileSync(join(ROOT, page), "utf8");
  const named = [...text.matchAll(/`((?:src|test|docs|deploy|demo|bench|examples|proto)\/[^`\s*<>{}]*)`/g)];
  expect(named.map(([, path = ""]) => path).filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
});

/** Whole configurations, which begin with the name of the file. */
const CONFIGURATIONS = PAGES.flatMap((page) =>
  [...readFileSync(join(ROOT, page), "utf8").matchAll(/^```toml\n(# jobgate\.toml\n[^`]*)```$/gm)].map(
    ([, toml = ""], i) => ({ page, nth: i + 1, toml }),
  ),
);

test.each(CONFIGURATIONS)(
  "Configuration $nth of $page loads without a mistake or warning",
  async ({ toml }) => {
    const variables = [...toml.matchAll(/"env:(\w+)"/g)].map(([, name = ""]) => [name, "a".repeat(32)]);
    const result = await loadFiles(toml, { env: Object.fromEntries(variables) });
    expect(result).toMatchObject({ ok: true, warnings: [] });
  },
);

/** Commands that would fetch a package that a stranger may have published under our name. */
const FETCHES = [
  /npm (?:i|install|exec)(?: -\S+)* jobgate\b/,
  /pip install(?: -\S+)* jobgate/,
  /go (?:get|install) github\.com\/jobgate/,
  /cargo (?:add|install)(?: -\S+)* jobgate/,
  /_KEY=\S+ npx jobgate/,
];

test.each(PAGES)("%s fetches nothing of jobgate from a registry", (page) => {
  const text = readFileSync(join(ROOT, page), "utf8");
  expect(FETCHES.flatMap((command) => command.exec(text)?.[0] ?? [])).toEqual([]);
});

test.each(PAGES)("%s has no marks of an unfinished merge", (page) => {
  expect(readFileSync(join(ROOT, page), "utf8")).not.toMatch(/^(?:<{7}|={7}|>{7})(?: |$)/m);
});

test("docs/http-api.md has each path that jobgate answers itself", () => {
  const page = readFileSync(join(ROOT, "docs/http-api.md"), "utf8");
  const own = Object.values(parts).flatMap(({ paths }: Part) => [
    ...(paths?.x402 ?? []),
    ...(paths?.operator ?? []),
  ]);
  expect(own).not.toEqual([]);
  expect(own.filter((path) => !page.includes(path))).toEqual([]);
});

test("docs/runbook.md says what to do about each alert", () => {
  const alerts = readFileSync(join(ROOT, "deploy/prometheus/alerts.yml"), "utf8");
  const named = [...alerts.matchAll(/^ +- alert: (\w+)$/gm)].map(([, name]) => name);
  const rows = readFileSync(join(ROOT, "docs/runbook.md"), "utf8").matchAll(/^\| `(\w+)` \|/gm);
  expect([...rows].map(([, name]) => name).sort()).toEqual(named.sort());
});

/** Pages that are looked up and not read: those that the index has under "Reference". */
function references(): Set<string> {
  const [, section = ""] = readFileSync(join(ROOT, "docs/README.md"), "utf8").split(/^## Reference$/m);
  const [table = ""] = section.split(/^## /m);
  return new Set([...table.matchAll(/\]\(([\w-]+\.md)\)/g)].map(([, name = ""]) => `docs/${name}`));
}

const GUIDES = PAGES.filter((page) => /^(?:docs\/.*|[A-Z]+)\.md$/.test(page) && !references().has(page));

test.each(GUIDES)("%s has at most 1,500 words", (page) => {
  expect(readFileSync(join(ROOT, page), "utf8").trim().split(/\s+/).length).toBeLessThanOrEqual(1_500);
});

test("README.md has fewer than 700 words", () => {
  expect(readFileSync(join(ROOT, "README.md"), "utf8").trim().split(/\s+/).length).toBeLessThan(700);
});

test("docs/README.md has a line for each page", () => {
  const index = readFileSync(join(ROOT, "docs/README.md"), "utf8");
  const pages = PAGES.filter((page) => /^docs\/[^/]+\.md$/.test(page) && page !== "docs/README.md");
  const missing = pages.filter((page) => !index.includes(`(${page.slice("docs/".length)})`));
  expect(missing).toEqual([]);
});
