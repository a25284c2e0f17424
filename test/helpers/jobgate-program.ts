import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Has the shape of the package, since the code finds its page and its package.json by relative paths. */
const CACHE = join(ROOT, "node_modules/.cache/jobgate");
/** Bundles older than this belong to no run any more. */
const BUNDLE_LIFETIME_MS = 3_600_000;
/** Packages that load native code, or files beside their own. */
const NOT_BUNDLED = ["libsql", "pino", "pino-pretty", "pg", "@grpc/grpc-js", "grpc-health-check"];

/**
 * `bundle`: the current sources in a few files, which start three times faster than the build; `build`: the published
 * files, of this checkout or another; `sources`: through tsx, as in development.
 */
export type ProgramSource = "bundle" | "build" | "sources" | { readonly builtIn: string };

/** Arguments of Node that run jobgate as a process. */
export function jobgateProgram(from: ProgramSource = "bundle"): string[] {
  if (from === "bundle") return [bundle()];
  if (from === "build") return [join(ROOT, "dist/main.js")];
  if (from !== "sources") return [join(from.builtIn, "dist/main.js")];
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
    splitting: true,
    platform: "node",
    target: "node20",
    format: "esm",
    external: NOT_BUNDLED,
    // CommonJS packages among the bundled ones call require for Node's own modules.
    banner: {
      js: 'import { createRequire as makeRequire } from "node:module"; const require = makeRequire(import.meta.url);',
    },
    logLevel: "error",
  });
  try {
    renameSync(unfinished, folder);
  } catch {
    rmSync(unfinished, { recursive: true });
  }
}

function linkTo(path: string): void {
  try {
    symlinkSync(join(ROOT, path), join(CACHE, path));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}
