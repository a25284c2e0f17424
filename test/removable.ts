import { spawn } from "node:child_process";
import { once } from "node:events";
import { parseArgs } from "node:util";
import { Bundles } from "./removable/bundles.ts";
import { importsByOtherParts, importsOfPart } from "./removable/imports-of-parts.ts";
import { problemInCopyWithout, problemWithout } from "./removable/program.ts";
import { ALL, CASES } from "./removable/without.ts";

/*
 * Shows that each part can be deleted, and all of them at once: no source or test of the core or of another part imports its
 * files. Without its folder and its lines the program bundles, checks and serves a configuration of the core, and refuses one
 * that has a table or key of the part, or names its transfer method. Without any part the sources also compile, and the
 * program is built in a copy. Run by `npm run check:removable`; names of parts select some, and `all` names all parts at
 * once. `npm run test:removable` builds every program in a copy, and runs the tests of the core there.
 */

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
const names = selected.length === 0 ? CASES : CASES.filter((name) => selected.includes(name));
const tests = options["core-tests"] ? CORE_TESTS : [];

async function doCompile(): Promise<boolean> {
  if (!names.includes(ALL)) return true;
  const args = ["--import", "tsx", `${import.meta.dirname}/removable/compile-process.ts`];
  const [code] = await once(spawn(process.execPath, args, { stdio: "inherit" }), "close");
  return code === 0;
}

async function doStart(): Promise<boolean> {
  const bundles = new Bundles();
  const problems: string[] = [];
  for (const name of names) {
    const imports = new Set([...importsOfPart(name, ["src", ...CORE_TESTS]), ...importsByOtherParts(name)]);
    const isCopied = name === ALL || tests.length > 0;
    const problem =
      imports.size > 0
        ? [...imports].join("\n")
        : await (isCopied ? problemInCopyWithout(name, tests) : problemWithout(name, bundles));
    if (problem === undefined) console.log(`ok  starts without ${name}`);
    else problems.push(`BROKEN  starts without ${name}\n${problem}`);
  }
  await bundles.close();
  // Problems stand at the end, where people look first.
  for (const problem of problems) console.log(problem);
  return problems.length === 0;
}

// Each uses one core.
const results = await Promise.all([doCompile(), doStart()]);
if (names.length === 0 || results.includes(false)) process.exitCode = 1;
