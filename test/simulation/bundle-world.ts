import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type BuildContext, context, stop } from "esbuild";
import { MODULES } from "../../bundle.ts";
import { bundleFolder, ROOT } from "../helpers/bundle.ts";
import { type Mutant, mutated } from "./bundle-gateway.ts";

export type SimulatedWorld = typeof import("./world/index.ts");

const WORLD = join(ROOT, "test/simulation/world");

/** Modules of Node, of packages and of the gateway that have another one in a simulated world. */
const REPLACED: Readonly<Record<string, string>> = {
  "node:timers/promises": "timers.ts",
  "node:crypto": "crypto.ts",
  "node:module": "native-sqlite.ts",
  "node:fs": "disk-files.ts",
  viem: "viem.ts",
  undici: "undici.ts",
  "hash-wasm": "hash-wasm.ts",
  "@noble/hashes/sha3": "keccak.ts",
  "src/chain/recover-address.ts": "viem.ts",
  "src/grpc/server.ts": "grpc-server.ts",
  "src/node/json-endpoint.ts": "endpoint.ts",
  "src/parts/transactions/account.ts": "settler-account.ts",
  "src/store/sqlite/worker-link.ts": "store-link.ts",
  "src/store/sqlite/file-owner.ts": "file-owner.ts",
  "src/store/sqlite/watched-files.ts": "watched-files.ts",
};

/** Modules of Node that have another one only for one of the gateway's. */
const ONLY_FOR: Readonly<Record<string, string>> = {
  "node:module": "src/store/sqlite/driver.ts",
  "node:fs": "src/store/sqlite/durable-log.ts",
};

/** Packages that ask for the time, or load modules when they need them: their first import would take real time. */
const BUNDLED = /^(@x402\/evm|viem|ox|abitype|@noble)(\/|$)/;

/** Sources of the gateway that have another module in a simulated world. */
const REPLACED_SOURCES = pathsOf(Object.keys(REPLACED).filter((path) => path.startsWith("src/")));
const SOURCES = /\/src\/.*\.ts$/;

let bundles = 0;
let bundler: Promise<BuildContext> | undefined;
let mutant: Mutant | undefined;
let unchanged: Promise<SimulatedWorld> | undefined;

/** Loads the gateway's code, or that of a mutant, with a simulated world around it. One at a time: the bundler is shared. */
export function loadWorld(changed?: Mutant): Promise<SimulatedWorld> {
  if (changed !== undefined) return bundleWorld(changed);
  unchanged ??= bundleWorld(undefined);
  return unchanged;
}

async function bundleWorld(changed: Mutant | undefined): Promise<SimulatedWorld> {
  mutant = changed;
  bundler ??= startBundler();
  const { outputFiles = [] } = await (await bundler).rebuild();
  const outdir = bundleFolder(`world-${process.pid}-${bundles++}`);
  mkdirSync(outdir);
  const path = join(outdir, "index.js");
  writeFileSync(path, outputFiles[0]?.contents ?? "");
  return import(pathToFileURL(path).href);
}

/** Starts a bundler that parses each file once for all worlds. */
function startBundler(): Promise<BuildContext> {
  // Otherwise esbuild reports a deadlock when this process ends.
  process.once("exit", () => void stop());
  return context({
    ...MODULES,
    // Modules that are loaded later would be read from a real disk.
    splitting: false,
    write: false,
    outdir: ROOT,
    entryPoints: [join(WORLD, "index.ts")],
    inject: [join(WORLD, "globals.ts")],
    define: { "Math.random": "seededRandom" },
    plugins: [
      {
        name: "world",
        setup(plugins) {
          plugins.onResolve(
            {
              filter:
                /^(node:(timers\/promises|crypto|module|fs)|viem|undici|hash-wasm|@noble\/hashes\/sha3)$/,
            },
            ({ path, importer }) => {
              if (importer === join(WORLD, "keccak.ts")) return { path, external: true };
              const only = ONLY_FOR[path];
              if (only !== undefined && importer !== join(ROOT, only)) return undefined;
              const replaced = join(WORLD, REPLACED[path] ?? "");
              if (importer !== replaced) return { path: replaced };
              return BUNDLED.test(path) ? undefined : { path, external: true };
            },
          );
          plugins.onResolve({ filter: /^[^./]/ }, ({ path }) =>
            BUNDLED.test(path) ? undefined : { path, external: true },
          );
          plugins.onLoad({ filter: REPLACED_SOURCES }, ({ path }) => {
            const by = join(WORLD, REPLACED[path.slice(ROOT.length)] ?? "");
            return { contents: `export * from ${JSON.stringify(by)};`, loader: "ts" };
          });
          plugins.onLoad({ filter: SOURCES }, ({ path }) =>
            mutant !== undefined && path === join(ROOT, "src", mutant.file)
              ? { contents: mutated(mutant), loader: "ts" }
              : undefined,
          );
        },
      },
    ],
  });
}

/** Matches files by their paths in the checkout. */
function pathsOf(files: readonly string[]): RegExp {
  return new RegExp(`^${ROOT}(${files.join("|").replaceAll(".", "\\.")})$`);
}
