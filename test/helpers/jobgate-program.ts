import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildSync, transformSync } from "esbuild";
import { BUNDLE, MODULES, WORKERS } from "../../bundle.ts";
import { bundleFolder, ROOT } from "./bundle.ts";
import { CLOSED_FACILITATOR, SALES_CONFIG } from "./small-configs.ts";

/** A configuration with all that most tests use of jobgate. Nothing answers at its addresses. */
const WARM_UP_CONFIG = `${SALES_CONFIG}${CLOSED_FACILITATOR}
[[webhooks.endpoints]]
path = "/hooks/signed"
job_id = 30
auth = "hmac-sha256"
secret = "warm-up"
`;

/**
 * `bundle`: the current sources, bundled and compiled, which need the least CPU to start; `build`: the
 * published files, of this checkout or another; `sources`: through tsx, as in development.
 */
export type ProgramSource = "bundle" | "build" | "sources" | { readonly builtIn: string };

/** Arguments of Node that run jobgate as a process. */
export function jobgateProgram(from: ProgramSource = "bundle"): string[] {
  if (from === "bundle") return [bundledProgram()];
  if (from === "build") return [join(ROOT, "dist/main.js")];
  if (from !== "sources") return [join(from.builtIn, "dist/main.js")];
  return ["--import", import.meta.resolve("tsx"), join(ROOT, "src/main.ts")];
}

/** Path of the bundle of the current sources, made if there is none yet. */
function bundledProgram(): string {
  const changedMs = Math.max(changedAt("src"), changedAt("test/helpers"));
  const folder = bundleFolder(`program-${changedMs}`);
  if (!existsSync(folder)) makeProgram(folder);
  return join(folder, "main.js");
}

/** When the newest file in a folder was changed. */
function changedAt(folder: string): number {
  const files = readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" });
  return Math.max(...files.map((path) => statSync(join(ROOT, folder, path)).mtimeMs));
}

function makeProgram(folder: string): void {
  // Two processes may do this at once: the first to rename wins.
  const unfinished = `${folder}-${process.pid}`;
  buildSync({ ...MODULES, entryPoints: WORKERS, outdir: unfinished });
  buildSync({
    ...BUNDLE,
    entryPoints: { jobgate: "src/commands/program.ts", launcher: "test/helpers/program-launcher.ts" },
    outdir: unfinished,
    outExtension: { ".js": ".cjs" },
    format: "cjs",
    // A script that V8 takes from its compiled code cannot import.
    supported: { "dynamic-import": false },
    define: { "import.meta.url": "importMetaUrl" },
    banner: { js: 'const importMetaUrl = require("node:url").pathToFileURL(__filename).href;' },
  });
  const { code } = transformSync(readFileSync(join(ROOT, "src/main.ts"), "utf8"), { loader: "ts" });
  writeFileSync(join(unfinished, "main.js"), code.replace("./commands/program.ts", "./launcher.cjs"));
  compile(unfinished);
  try {
    renameSync(unfinished, folder);
  } catch {
    rmSync(unfinished, { recursive: true });
  }
}

/** Runs the program once, so that its launcher finds V8's compiled code. */
function compile(folder: string): void {
  const cwd = mkdtempSync(join(tmpdir(), "jobgate-warm-up-"));
  try {
    writeFileSync(join(cwd, "jobgate.toml"), WARM_UP_CONFIG);
    const launcher = JSON.stringify(join(folder, "launcher.cjs"));
    execFileSync(process.execPath, ["-e", `require(${launcher}).warmUp()`], { cwd, timeout: 60_000 });
  } finally {
    rmSync(cwd, { recursive: true });
  }
}
