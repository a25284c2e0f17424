import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { type BuildOptions, buildSync, type Metafile } from "esbuild";
import { rolldown } from "rolldown";

const ROOT = import.meta.dirname;

/** Options of every bundle of jobgate's code. */
export const BUNDLE = {
  absWorkingDir: ROOT,
  bundle: true,
  platform: "node",
  target: "node20",
  // Packages with native code, optional ones, and one that grpc-js loads only for services that jobgate does not have.
  external: ["libsql", "pg", "@grpc/proto-loader"],
  alias: {
    // Its CommonJS form, which Node loads, would lose its names where it is loaded late.
    "hash-wasm": "hash-wasm/dist/index.esm.js",
    "@noble/hashes/sha3": "./src/chain/keccak.ts",
  },
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
 * Kinds of starts, with the modules that each kind imports late: a command of operators, a reader of a configuration, a
 * gateway, and a gateway that sells jobs. Code that the same kinds load is in one file.
 */
const STARTS = {
  command: ["src/commands/store.ts"],
  config: ["src/load-config.ts"],
  serve: ["src/commands/serve.ts", "src/start-gateway.ts", "src/host.ts", "src/store/sqlite/sqlite-store.ts"],
  sell: ["src/x402/gateway.ts", "src/x402/methods/methods.ts"],
};

/**
 * Bundles `jobgate`, its worker threads and its API into a folder. Reading and linking the modules one by one takes
 * longer than running them: the bundle starts in a third of the CPU time. Nothing but the external packages is installed
 * with it. The folder must be two levels below package.json, which the code finds by a relative path, as it does the pages.
 */
async function bundleProgram(folder: string): Promise<void> {
  rmSync(join(ROOT, folder), { recursive: true, force: true });
  const bundled = { ...MODULES, outdir: folder, metafile: true } as const;
  const { worker, ...workers } = WORKERS;
  const entryPoints = { ...API, ...workers };
  const built = [
    buildSync({ ...bundled, entryPoints, chunkNames: "api-[name]-[hash]" }),
    // Two threads of each gateway run the worker, and each reads its files.
    buildSync({ ...bundled, entryPoints: { worker }, splitting: false }),
  ];
  const program = buildSync({ ...bundled, entryPoints: { main: "src/main.ts" }, write: false });
  await writeMerged(folder, program);
  const inputs = [...built, program].flatMap(({ metafile }) => Object.keys(metafile.inputs));
  writeFileSync(join(folder, "LICENSES.txt"), licensesOf([...new Set(inputs)]));
}

/**
 * Writes the program in fewer files. esbuild makes a file for each set of late imports that share modules, and a start
 * would read up to 280 of these files.
 */
async function writeMerged(folder: string, program: ReturnType<typeof buildSync>): Promise<void> {
  const { outputFiles = [], metafile = { inputs: {}, outputs: {} } } = program;
  const texts = new Map(outputFiles.map(({ path, text }) => [path, text]));
  const fileOf = startFiles(metafile);
  const bundle = await rolldown({
    input: join(ROOT, folder, "main.js"),
    platform: "node",
    external: /^[^./]/,
    treeshake: false,
    preserveEntrySignatures: "allow-extension",
    plugins: [
      {
        name: "files of esbuild",
        resolveId: (path, importer) => (importer === undefined ? path : join(dirname(importer), path)),
        // The names of the modules would be lost in other comments.
        load: (id) => texts.get(id)?.replaceAll(/^\/\/ (?=src|node_modules)/gm, "//! "),
      },
    ],
  });
  await bundle.write({
    dir: folder,
    chunkFileNames: "[name].js",
    codeSplitting: {
      groups: [{ name: (id) => fileOf.get(relative(ROOT, id)), debugName: "starts" }],
      includeDependenciesRecursively: false,
    },
  });
}

/** Returns the names of the files for esbuild's outputs that {@link STARTS} load. */
function startFiles({ outputs }: Metafile): ReadonlyMap<string, string> {
  function loadedBy(path: string, loaded = new Set<string>()): Set<string> {
    if (loaded.has(path)) return loaded;
    loaded.add(path);
    for (const { path: imported, kind } of outputs[path]?.imports ?? [])
      if (kind === "import-statement" && outputs[imported]) loadedBy(imported, loaded);
    return loaded;
  }
  const paths = Object.keys(outputs);
  const loadedWith = (modules: readonly string[]) => {
    const found = paths.filter((path) => modules.includes(outputs[path]?.entryPoint ?? ""));
    if (found.length < modules.length) throw new Error(`${modules}: a module is not imported late`);
    return new Set(found.flatMap((path) => [...loadedBy(path)]));
  };
  const inputsOf = (loaded: readonly string[]) =>
    loaded.flatMap((path) => Object.keys(outputs[path]?.inputs ?? {}));
  const always = loadedWith(["src/main.ts"]);
  const starts = Object.entries(STARTS).map(([name, modules]) => ({ name, loaded: loadedWith(modules) }));
  const nameOf = (path: string) => {
    if (always.has(path)) return path.endsWith("/main.js") ? "" : "main-core";
    // Parts that sell nothing share these small modules with what sells.
    if (inputsOf([...loadedBy(path)]).every((input) => input.startsWith("src/core/"))) return "core";
    return starts.flatMap(({ name, loaded }) => (loaded.has(path) ? name : [])).join("-");
  };
  const named = paths.map((path) => [path, nameOf(path)] as const).filter(([, name]) => name !== "");
  // The API has files of its own, such as config.js.
  return new Map(named.map(([path, name]) => [path, `start-${name}`]));
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
  await bundleProgram("dist/program");
  bundlePages("dist/page");
  writeFileSync("dist/main.js", START, { mode: 0o755 });
}
