import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "../helpers/bundle.ts";
import { logEvents } from "./log-events.ts";
import { commandOptions, faultOfCommand, operatorPage } from "./operator-reference.ts";

const page = (name: string) => readFile(join(ROOT, "docs", name), "utf8");

test("docs/operator-api.md has the methods of operator.proto and the commands, as `npm run generate:docs` prints them", async () => {
  expect(await page("operator-api.md")).toBe(await operatorPage());
});

test("docs/log-events.md lists exactly what jobgate logs, with the levels", async () => {
  const rows = (await page("log-events.md")).matchAll(/^\| `(.+)` \| (fatal|error|warn|info|debug) \|/gm);
  const documented = [...rows].map(([, message, level]) => `${level}: ${message}`);
  const places = new Map(logEvents().map(({ level, message, at }) => [`${level}: ${message}`, at]));
  const missing = [...places].filter(([event]) => !documented.includes(event));
  expect(missing).toEqual([]);
  expect(documented.filter((event) => !places.has(event))).toEqual([]);
  expect(documented).toHaveLength(places.size);
});

/** Returns the commands of jobgate in the code of a page: in its blocks, and within sentences. */
function commandsIn(text: string): string[] {
  const blocks = [...text.matchAll(/^```\w*\n([\s\S]*?)^```$|^ {4}(\S.*)$/gm)].map(
    ([, block, line]) => block ?? line ?? "",
  );
  const spans = [...text.replaceAll(/^```[\s\S]*?^```$/gm, "").matchAll(/`([^`\n]+)`/g)].map(
    ([, span = ""]) => span,
  );
  const commands = /(?:^|[|&$(] ?|npx |--no-install |=\S+ )jobgate ((?:[a-z][a-z-]*)(?: [^|)\n]*)?)/gm;
  return [...blocks, ...spans]
    .flatMap((code) => [...code.matchAll(commands)])
    .map(([, command = ""]) => command.split(/ {2,}#| #/)[0]?.trim() ?? "");
}

const ADDRESS = `0x${"1".repeat(40)}`;

const PAGES = execFileSync("git", ["ls-files", "README.md", "docs/*.md", "examples/*.md", "clients/*.md"], {
  cwd: ROOT,
  encoding: "utf8",
})
  .trim()
  .split("\n");

test("Every command of jobgate in the pages exists, and has the options that the pages give it", async () => {
  const options = await commandOptions();
  const found: string[] = [];
  const wrong: string[] = [];
  for (const path of PAGES) {
    for (const command of commandsIn(await readFile(join(ROOT, path), "utf8"))) {
      const [first = "", second = ""] = command.split(" ");
      const known = options.get(`${first} ${second}`) ?? options.get(first);
      const [own = ""] = command.split(" -- ");
      const flags = own.match(/(?<= )--?[a-z][a-z-]*/g) ?? [];
      found.push(command);
      if (known === undefined || flags.some((flag) => !known.has(flag)))
        wrong.push(`${path}: jobgate ${command}`);
    }
  }
  expect(wrong).toEqual([]);
  expect(found.length).toBeGreaterThan(100);
});

/** Arguments of a command as a shell reads them, with an address or a transaction in place of `0x…`. */
function argumentsOf(command: string): string[] {
  const [words = ""] = command.replaceAll(/\$\([^)]*\)?/g, "value").split(/ [<>] ?/);
  return [...words.replace("--pay-to 0x…", `--pay-to ${ADDRESS}`).matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
    ([, single, double, bare = ""]) => (single ?? double ?? bare).replaceAll("0x…", `0x${"1".repeat(64)}`),
  );
}

test("Every command of jobgate in a block of the pages takes its arguments and values", async () => {
  const wrong: string[] = [];
  let parsed = 0;
  for (const path of PAGES) {
    const text = await readFile(join(ROOT, path), "utf8");
    for (const [, block = ""] of text.matchAll(/^```sh\n([\s\S]*?)^```$/gm))
      for (const command of commandsIn(`\`\`\`sh\n${block}\`\`\``)) {
        const fault = await faultOfCommand(argumentsOf(command));
        if (fault !== undefined) wrong.push(`${path}: jobgate ${command}: ${fault}`);
        parsed += 1;
      }
  }
  expect(wrong).toEqual([]);
  expect(parsed).toBeGreaterThan(40);
});
