import { join } from "node:path";
import { ROOT } from "../helpers/bundle.ts";
import { changeableBundle } from "./changeable-bundle.ts";
import { DISK_MUTANTS } from "./disk-mutants.ts";
import { MUTANTS } from "./mutants.ts";
import { POSTGRES_MUTANTS } from "./postgres-mutants.ts";
import { WORLD_MUTANTS } from "./world-mutants.ts";

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

/**
 * Packages that are part of the bundle. Some ask for the time, some load modules late, which would take real time, and some have no
 * CommonJS form.
 */
const BUNDLED = /^(@x402\/evm|viem|ox|abitype|@noble|p-limit|yocto-queue)(\/|$)/;

/** Sources of the gateway that have another module in a simulated world. */
const REPLACED_SOURCES = pathsOf(Object.keys(REPLACED).filter((path) => path.startsWith("src/")));

/** Loads the gateway's code, or that of a mutant, with a simulated world around it. */
export const loadWorld = changeableBundle<SimulatedWorld>({
  entryPoint: join(WORLD, "index.ts"),
  mutants: [...DISK_MUTANTS, ...MUTANTS, ...POSTGRES_MUTANTS, ...WORLD_MUTANTS],
  globals: {
    module: join(WORLD, "globals.ts"),
    names: [
      ...["setTimeout", "setInterval", "setImmediate", "clearTimeout", "clearInterval", "clearImmediate"],
      ...["Date", "performance", "seededRandom"],
    ],
  },
  define: { "Math.random": "seededRandom" },
  plugin: {
    name: "world",
    setup(plugins) {
      plugins.onResolve(
        {
          filter: /^(node:(timers\/promises|crypto|module|fs)|viem|undici|hash-wasm|@noble\/hashes\/sha3)$/,
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
    },
  },
});

/** Matches files by their paths in the checkout. */
function pathsOf(files: readonly string[]): RegExp {
  return new RegExp(`^${ROOT}(${files.join("|").replaceAll(".", "\\.")})$`);
}
