import { type ChildProcess, spawn } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import type { PartKeys } from "../src/config/load-config.ts";
import { fileKey } from "../src/config/mistakes.ts";
import { partKeys } from "../src/load-parts.ts";
import type { Part } from "../src/part.ts";
import { importsOfPart } from "./imports-of-parts.ts";

/*
 * Shows that each part can be deleted, and all of them at once: no test of the core imports their files. In a copy of
 * the sources, without the folder and its lines, the rest compiles, and the built program checks and serves a configuration of
 * the core, and refuses one that has a table of the part, a key in an entry of a list, or names its transfer method. Run by `npm run check:removable`; names of parts select some, and `all`
 * names all parts at once. `npm run test:removable` runs the tests of the core in each copy.
 */

const ROOT = join(import.meta.dirname, "..");
/** Name of the case without any part. */
const ALL = "all";
/** Libraries of parts. */
const TOOLS: readonly string[] = ["outbound", "transactions"];
/** Folders of `test/` that test the core alone. */
const CORE_TESTS = [
  "chain",
  "config",
  "core",
  "delivery",
  "grpc",
  "http",
  "log",
  "node",
  "store",
  "webhooks",
  "x402",
].map((name) => `test/${name}`);
const { values: options, positionals: selected } = parseArgs({
  options: { "core-tests": { type: "boolean", default: false } },
  allowPositionals: true,
});
/** Copies that are checked at a time. Tests use all cores. */
const AT_ONCE = options["core-tests"] ? 1 : 2;
const SERVE_TIMEOUT_MS = 60_000;
const SOURCE_FILES = ["src", "package.json", "tsconfig.json", "bundle.ts", "LICENSE"];
/** What a copy for tests does without. */
const LEFT_OUT = [".git", "dist", "node_modules"];

const CORE_CONFIG = `
[store]
url = "sqlite:core.db"
[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hook"
job_id = 1
auth = "none"
`;

interface Ended {
  readonly code: number | null;
  readonly output: string;
}

async function ended(child: ChildProcess): Promise<Ended> {
  const { stdout, stderr } = child;
  if (stdout === null || stderr === null) throw new Error("the child has no pipes");
  const code = new Promise<number | null>((resolve) => void child.once("close", resolve));
  const output = await Promise.all([text(stdout), text(stderr)]);
  return { code: await code, output: output.join("") };
}

const run = (cwd: string, program: string, ...args: string[]): Promise<Ended> =>
  ended(spawn(program, args, { cwd }));

/** Serves until the program is ready. @returns what went wrong */
async function serveProblem(folder: string): Promise<string | undefined> {
  const child = spawn("node", ["dist/main.js", "serve", "-c", "core.toml"], { cwd: folder });
  const isReady = new Promise<boolean>((resolve) => {
    child.stdout.on("data", (chunk: Buffer) => chunk.includes("runner listening on") && resolve(true));
  });
  const end = ended(child);
  const waited = await Promise.race([isReady, end, sleep(SERVE_TIMEOUT_MS, false, { ref: false })]);
  child.kill(waited === true ? "SIGTERM" : "SIGKILL");
  const { code, output } = await end;
  return waited === true && code === 0 ? undefined : output;
}

/** Copies the sources, and compiles them, so that the compiler looks in each further copy only at what changed. */
async function makeBase(folder: string): Promise<void> {
  const names = options["core-tests"]
    ? readdirSync(ROOT).filter((name) => !LEFT_OUT.includes(name))
    : SOURCE_FILES;
  for (const name of names) cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  writeFileSync(join(folder, "sources.json"), SOURCES);
  writeFileSync(join(folder, "core.toml"), CORE_CONFIG);
  const { code, output } = await run(folder, "npx", "tsc", "-p", "sources.json");
  if (code !== 0) throw new Error(output);
}

/** @returns what breaks without the part */
async function problemWithout(part: string, base: string): Promise<string | undefined> {
  const imports = importsOfPart(part === ALL ? "[^/]+" : part, CORE_TESTS);
  if (imports.length > 0) return imports.join("\n");
  const folder = mkdtempSync(join(tmpdir(), `jobgate-without-${part}-`));
  try {
    cpSync(base, folder, { recursive: true, verbatimSymlinks: true });
    for (const name of part === ALL ? readdirSync(join(ROOT, "src/parts")) : [part])
      for (const list of ["src/parts.ts", "src/commands/program.ts"]) removeLines(join(folder, list), name);
    const path = part === ALL ? "parts" : `parts/${part}`;
    rmSync(join(folder, "src", path), { recursive: true });
    rmSync(join(folder, "test", path), { recursive: true, force: true });
    for (const command of [
      ["npx", "tsc", "-p", "sources.json"],
      ["node", "--import", "tsx", "bundle.ts"],
      ["node", "dist/main.js", "check", "-c", "core.toml"],
    ] as const) {
      const [program, ...args] = command;
      const { code, output } = await run(folder, program, ...args);
      if (code !== 0) return `${command.join(" ")}:\n${output}`;
    }
    const accepted =
      (await acceptedTables(part, folder)) ??
      (await acceptedEntryKeys(part, folder)) ??
      (await acceptedMethod(part, folder));
    const problem = accepted ?? (await serveProblem(folder));
    return problem ?? (options["core-tests"] ? await failedTests(folder) : undefined);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** @returns what `jobgate check` prints if it accepts a table of the part */
async function acceptedTables(part: string, folder: string): Promise<string | undefined> {
  const paths = (await keysOf(part)).tables.flatMap((table) => table.paths);
  if (paths.length === 0) return undefined;
  writeFileSync(join(folder, "table.toml"), `${CORE_CONFIG}${paths.map((path) => `[${path}]\n`).join("")}`);
  const { code, output } = await run(folder, "node", "dist/main.js", "check", "-c", "table.toml");
  const refused = (path: string) =>
    output.includes(`: ${path}: is not a known key: this build has no table ${path.split(".").at(-1)};`);
  return code === 1 && paths.every(refused) ? undefined : `accepts ${paths.join(" or ")}:\n${output}`;
}

/** @returns what `jobgate check` prints if it accepts a key of the part in an entry of a list */
async function acceptedEntryKeys(part: string, folder: string): Promise<string | undefined> {
  for (const { list, keys } of (await keysOf(part)).entries) {
    const [x402 = "", name = "", ...rest] = list.split(".").map(fileKey);
    const paths = Object.keys(keys).map((key) => [...rest, fileKey(key)].join("."));
    const entry = `[[${x402}.${name}]]\n${paths.map((path) => `${path} = 1\n`).join("")}`;
    writeFileSync(join(folder, "entry.toml"), `${CORE_CONFIG}${entry}`);
    const { code, output } = await run(folder, "node", "dist/main.js", "check", "-c", "entry.toml");
    const refused = (path: string) =>
      output.includes(
        `: ${x402}.${name}[0].${path}: is not a known key: this build has no key ${path.split(".").at(-1)};`,
      );
    if (code !== 1 || !paths.every(refused)) return `accepts ${paths.join(" or ")} in ${list}:\n${output}`;
  }
  return undefined;
}

/** @returns what `jobgate check` prints if it accepts a token that is paid by the part's transfer method */
async function acceptedMethod(part: string, folder: string): Promise<string | undefined> {
  for (const { name } of (await keysOf(part)).methods) {
    writeFileSync(
      join(folder, "method.toml"),
      `${CORE_CONFIG}[[x402.accepted_tokens]]\ntransfer_method = "${name}"\n`,
    );
    const { code, output } = await run(folder, "node", "dist/main.js", "check", "-c", "method.toml");
    const refusal = `transfer_method: is "${name}"; expected "eip3009" (the transfer methods of this build)`;
    if (code !== 1 || !output.includes(refusal)) return `accepts ${name}:\n${output}`;
  }
  return undefined;
}

/** Returns what a part brings to the configuration. */
async function keysOf(part: string): Promise<PartKeys> {
  if (part === ALL) return partKeys();
  const face = join(ROOT, "src/parts", part, "part.ts");
  if (!existsSync(face)) return { tables: [], entries: [], methods: [] };
  const { table, entries, tokenMethod } = ((await import(face)) as { part: Part }).part;
  return {
    tables: table ? [table] : [],
    entries: entries ? [entries] : [],
    methods: tokenMethod ? [tokenMethod] : [],
  };
}

/** @returns what the tests of the core print if one fails */
async function failedTests(folder: string): Promise<string | undefined> {
  const { code, output } = await run(folder, "npx", "vitest", "run", "--reporter=dot", ...CORE_TESTS);
  return code === 0 ? undefined : output;
}

const SOURCES = JSON.stringify({
  extends: "./tsconfig.json",
  compilerOptions: { incremental: true, tsBuildInfoFile: "types.tsbuildinfo" },
  include: ["src"],
});

/** Removes the imports of a part from a list, and the name that the list of parts gives it. */
function removeLines(path: string, part: string): void {
  const lines = readFileSync(path, "utf8").split("\n");
  const left = lines.filter((line) => !line.includes(`/parts/${part}/`));
  writeFileSync(path, left.join("\n"));
}

const names = [ALL, ...readdirSync(join(ROOT, "src/parts")).filter((name) => !TOOLS.includes(name))];
const parts = selected.length === 0 ? names : names.filter((name) => selected.includes(name));
const left = [...parts];
const problems = new Map<string, string>();
const base = mkdtempSync(join(tmpdir(), "jobgate-with-all-"));
await makeBase(base);
await Promise.all(
  Array.from({ length: AT_ONCE }, async () => {
    for (let part = left.shift(); part !== undefined; part = left.shift()) {
      const problem = await problemWithout(part, base);
      console.log(`${problem === undefined ? "ok" : "BROKEN"}  without ${part}`);
      if (problem !== undefined) problems.set(part, problem);
    }
  }),
);
rmSync(base, { recursive: true });
for (const [part, problem] of problems) console.error(`\nWithout ${part}:\n${problem}`);
if (parts.length === 0 || problems.size > 0) process.exitCode = 1;
