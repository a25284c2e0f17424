import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Has the shape of the package, since the code finds its page and its package.json by relative paths. */
const CACHE = join(ROOT, "node_modules/.cache/jobgate");
const RUN_BUNDLE = fileURLToPath(new URL("run-bundle.cjs", import.meta.url));
/** Bundles older than this belong to no run any more. */
const BUNDLE_LIFETIME_MS = 3_600_000;
const EVERY_LISTENER = `service_id = 1
[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
[x402]
bind_address = "127.0.0.1:0"
public_url = "http://127.0.0.1"
facilitator_url = "http://127.0.0.1:9"
[[x402.accepted_tokens]]
network = "eip155:84532"
asset = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"
symbol = "USDC"
decimals = 6
pay_to = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"
rate_per_native_unit = "3200.00"
eip3009_name = "USDC"
eip3009_version = "2"
[job_pricing.1]
0 = "1000000000000000"
[webhooks]
bind_address = "127.0.0.1:0"
`;
/** Packages that load native code, or files beside their own. */
const NOT_BUNDLED = ["libsql", "pino", "pino-pretty", "pg", "@grpc/grpc-js", "grpc-health-check"];

/**
 * Arguments of Node that run jobgate as a process.
 * @param from `bundle`: the current sources in one file that V8 compiled before, which starts four times faster than the build;
 * `build`: the published files; `sources`: through tsx, as in development
 */
export function jobgateProgram(from: "bundle" | "build" | "sources" = "bundle"): string[] {
  if (from === "bundle") return [RUN_BUNDLE, bundle()];
  if (from === "build") return [join(ROOT, "dist/main.js")];
  return ["--import", import.meta.resolve("tsx"), join(ROOT, "src/main.ts")];
}

/** Path of the bundle of the current sources, made if there is none yet. */
function bundle(): string {
  const src = join(ROOT, "src");
  const files = readdirSync(src, { recursive: true, encoding: "utf8" });
  const changedMs = Math.max(...files.map((path) => statSync(join(src, path)).mtimeMs));
  const folder = join(CACHE, "src", `program-${changedMs}`);
  if (!existsSync(folder)) makeBundle(folder);
  return join(folder, "main.js");
}

function makeBundle(folder: string): void {
  mkdirSync(join(CACHE, "src"), { recursive: true });
  linkTo("package.json");
  linkTo("src/page");
  for (const entry of readdirSync(join(CACHE, "src"), { withFileTypes: true })) {
    const path = join(CACHE, "src", entry.name);
    const isOld = Date.now() - statSync(path).mtimeMs > BUNDLE_LIFETIME_MS;
    if (entry.isDirectory() && isOld) rmSync(path, { recursive: true, force: true });
  }
  // Two test files may do this at once: the first to rename wins.
  const unfinished = `${folder}-${process.pid}`;
  buildSync({
    absWorkingDir: ROOT,
    entryPoints: {
      main: "src/main.ts",
      worker: "src/store/sqlite/worker.ts",
      "proof-worker": "src/pricing/proof-worker.ts",
    },
    outdir: unfinished,
    bundle: true,
    minifyWhitespace: true,
    platform: "node",
    target: "node20",
    // V8 stores the compiled code of scripts only, not of modules.
    format: "cjs",
    external: NOT_BUNDLED,
    define: { "import.meta.url": "bundleUrl" },
    banner: { js: 'const bundleUrl = require("node:url").pathToFileURL(__filename).href;' },
    logLevel: "error",
  });
  writeFileSync(join(unfinished, "package.json"), '{"type":"commonjs"}');
  try {
    renameSync(unfinished, folder);
  } catch {
    rmSync(unfinished, { recursive: true });
  }
  makeCodeCache(folder);
}

/** Starts the bundle once, so that V8 compiles what a start needs. Without its result every start is only slower. */
function makeCodeCache(folder: string): void {
  const config = join(folder, "jobgate.toml");
  writeFileSync(config, EVERY_LISTENER);
  spawnSync(process.execPath, [RUN_BUNDLE, join(folder, "main.js"), "serve", "-c", config], {
    cwd: folder,
    env: { PATH: process.env.PATH, JOBGATE_MAKE_CODE_CACHE: "1" },
    timeout: 20_000,
    killSignal: "SIGKILL",
  });
}

function linkTo(path: string): void {
  try {
    symlinkSync(join(ROOT, path), join(CACHE, path));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}
