import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { ROOT } from "../helpers/bundle.ts";
import { changeableBundle } from "./changeable-bundle.ts";
import { STORE_MUTANTS } from "./store-mutants.ts";

/** Loads tests of the store with its code, or with that of a mutant. */
export const loadStoreTests = changeableBundle<typeof import("./store-tests.ts")>({
  entryPoint: join(ROOT, "test/simulation/store-tests.ts"),
  mutants: STORE_MUTANTS,
  plugin: {
    name: "collected tests",
    setup(plugins) {
      const collected = join(ROOT, "test/simulation/collected-tests.ts");
      plugins.onResolve({ filter: /^vitest$/ }, () => ({ path: collected }));
      // Tests find files relative to their own.
      plugins.onLoad({ filter: /\.test\.ts$/ }, ({ path }) => ({
        contents: readFileSync(path, "utf8").replaceAll(
          "import.meta.url",
          JSON.stringify(pathToFileURL(path).href),
        ),
        loader: "ts",
      }));
    },
  },
});
