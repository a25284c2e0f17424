import { mkdirSync, readdirSync, readlinkSync, rmSync, statSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type BuildOptions, buildSync } from "esbuild";
import { MODULES, WORKERS } from "../../bundle.ts";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Has the shape of the package, since the code finds its page, its workers and its package.json by relative paths. */
const CACHE = join(ROOT, "node_modules/.cache/jobgate");
/** Bundles older than this belong to no run any more. */
const BUNDLE_LIFETIME_MS = 3_600_000;

/** Path of a folder for bundles, not made yet. */
export function bundleFolder(name: string): string {
  mkdirSync(join(CACHE, "src"), { recursive: true });
  linkTo("package.json", "package.json");
  linkTo("dist", "dist");
  for (const entry of readdirSync(join(CACHE, "src"), { withFileTypes: true })) {
    const path = join(CACHE, "src", entry.name);
    const isOld = Date.now() - statSync(path).mtimeMs > BUNDLE_LIFETIME_MS;
    if (entry.isDirectory() && isOld) rmSync(path, { recursive: true, force: true });
  }
  return join(CACHE, "src", name);
}

const scripts = new Map<string, string>();

/** Path of a bundle of a TypeScript module, given as text that imports from the root. It starts faster than with tsx. */
export function bundledScript(text: string, options: BuildOptions = {}): string {
  const known = scripts.get(text);
  if (known !== undefined) return known;
  const folder = bundleFolder(`script-${process.pid}-${scripts.size}`);
  const stdin = { contents: text, resolveDir: ROOT, loader: "ts" } as const;
  buildSync({ ...MODULES, entryPoints: WORKERS, outdir: folder, stdin, ...options });
  const path = join(folder, "stdin.js");
  scripts.set(text, path);
  return path;
}

/** Makes a link of the cache. One that leads elsewhere came with the cache of another checkout, whose pages it would serve. */
function linkTo(target: string, name: string): void {
  const [to, link] = [join(ROOT, target), join(CACHE, name)];
  try {
    symlinkSync(to, link);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    if (readlinkSync(link) === to) return;
    rmSync(link);
    linkTo(target, name);
  }
}
