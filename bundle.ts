import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { type BuildOptions, buildSync } from "esbuild";

const ROOT = import.meta.dirname;

/** Options of every bundle of jobgate's code. */
export const BUNDLE = {
  absWorkingDir: ROOT,
  bundle: true,
  platform: "node",
  target: "node20",
  // Packages with native code, optional ones, and one that grpc-js loads only for services that jobgate does not have.
  external: ["libsql", "pg", "@grpc/proto-loader"],
  // Its CommonJS form, which Node loads, would lose its names where it is loaded late.
  alias: { "hash-wasm": "hash-wasm/dist/index.esm.js" },
  logLevel: "error",
} as const satisfies BuildOptions;

/** Options of a bundle of ES modules, whose files are loaded where they are needed. */
export const MODULES = {
  ...BUNDLE,
  format: "esm",
  splitting: true,
  // CommonJS packages among the bundled ones call require for Node's own modules.
  banner: {
    js: 'import { createRequire as makeRequire } from "node:module"; const require = makeRequire(import.meta.url);',
  },
} as const satisfies BuildOptions;

/** Paths of the modules of parts whose names end in `suffix`, such as `api.ts`. */
const modulesOfParts = (suffix: string): string[] =>
  readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" })
    .filter((path) => /^parts\/[^/]+\/[^/]+$/.test(path) && path.endsWith(suffix))
    .map((path) => `src/${path}`);

/** Modules of jobgate's worker threads, which must be beside the program. */
export const WORKERS = {
  worker: "src/store/sqlite/worker.ts",
  "schema-worker": "src/x402/purchase/schema-worker.ts",
  ...Object.fromEntries(modulesOfParts("-worker.ts").map((path) => [basename(path, ".ts"), path])),
};

/** Modules that programs import as `jobgate/…`: those of the core, and those of parts by the name of the part. */
const API = Object.fromEntries([
  ...readdirSync(join(ROOT, "src/api")).map((file) => [basename(file, ".ts"), `src/api/${file}`]),
  ...modulesOfParts("/api.ts").map((path) => [basename(dirname(path)), path]),
]);

/**
 * Bundles `jobgate`, its worker threads and its API into a folder. Reading and linking the modules one by one takes
 * longer than running them: the bundle starts in half the CPU time. Nothing but the external packages is installed with it.
 * The folder must be two levels below package.json, which the code finds by a relative path, as it does the pages.
 */
function bundleProgram(folder: string): void {
  rmSync(join(ROOT, folder), { recursive: true, force: true });
  const entryPoints = { main: "src/main.ts", ...API, ...WORKERS };
  const { metafile } = buildSync({ ...MODULES, entryPoints, outdir: folder, metafile: true });
  writeFileSync(join(folder, "LICENSES.txt"), licensesOf(Object.keys(metafile.inputs)));
}

/** Options of what pages run. */
const PAGES = {
  absWorkingDir: ROOT,
  bundle: true,
  format: "esm",
  target: "es2023",
  minify: true,
  logLevel: "error",
} as const satisfies BuildOptions;

/** Makes the pages: those of the shop are served as they are, the operator's is one script and one style sheet. */
function bundlePages(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  cpSync("src/page/shared", join(folder, "shared"), { recursive: true });
  copyShop("src/parts/shop/view", join(folder, "shop"));
  if (!existsSync("src/parts/page/view")) return;
  const operator = join(folder, "operator");
  const { metafile } = buildSync({
    ...PAGES,
    jsx: "automatic",
    jsxImportSource: "preact",
    entryPoints: ["src/parts/page/view/page.tsx", "src/parts/page/view/page.css"],
    outdir: operator,
    metafile: true,
  });
  cpSync("src/parts/page/view/index.html", join(operator, "index.html"));
  writeFileSync(join(operator, "LICENSES.txt"), licensesOf(Object.keys(metafile.inputs)));
}

/** Copies the files of the shop, which find the shared ones beside them where they are served, and bundles what parts add. */
function copyShop(from: string, to: string): void {
  if (!existsSync(from)) return;
  cpSync(from, to, { recursive: true, filter: (path) => !/\.(?:json|d\.ts)$/.test(path) });
  for (const name of readdirSync(to).filter((file) => file.endsWith(".js"))) {
    const source = readFileSync(join(to, name), "utf8");
    const served = source.replaceAll('"../../../page/shared/', '"../shared/');
    writeFileSync(join(to, name), served.replaceAll('"../../../page/part-chains.ts"', '"./part-chains.js"'));
  }
  // Each kind of chains is a file of its own, for the pages of jobs that are sold there.
  buildSync({ ...PAGES, splitting: true, entryPoints: ["src/page/part-chains.ts"], outdir: to });
}

/** Licenses of the bundled packages, which ask to be passed on with every copy. */
function licensesOf(inputs: readonly string[]): string {
  const folders = inputs.flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(path)?.[0] ?? []);
  const texts = [...new Set(folders)].sort().map((folder) => {
    const read = (name: string) => readFileSync(join(ROOT, folder, name), "utf8");
    const { name, version, license } = JSON.parse(read("package.json")) as Record<string, string>;
    const file = readdirSync(join(ROOT, folder)).find((name) => /^licen[cs]e/i.test(name));
    return `${name} ${version}, ${license}\n\n${file === undefined ? "" : read(file)}`;
  });
  return texts.join("\n\n---\n\n");
}

/**
 * Start of the program. Node 22 and later keep its compiled code, which saves a fifth of a start's CPU. It is kept beside
 * the program, since other users could write into a folder that all programs share.
 */
const START = `#!/usr/bin/env node
import module from "node:module";
module.enableCompileCache?.(\`\${import.meta.dirname}/compiled\`);
await import("./program/main.js");
`;

if (process.argv[1] === import.meta.filename) {
  bundleProgram("dist/program");
  bundlePages("dist/page");
  writeFileSync("dist/main.js", START, { mode: 0o755 });
}
