import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build, type Plugin } from "esbuild";
import { MODULES } from "../../bundle.ts";
import { bundleFolder, ROOT } from "../helpers/bundle.ts";
import type { PartName } from "./world/world.ts";

/** A change that removes one guard. */
export interface Mutant {
  /** Path in `src`. */
  readonly file: string;
  /** Text that occurs once. */
  readonly from: string;
  readonly to: string;
}

/** A mutant that breaks a law in some simulated worlds. */
export interface WorldMutant extends Mutant {
  readonly name: string;
  /** Parts of its worlds, in place of those that their seeds draw: the fewer, the sooner a world ends. */
  readonly parts?: readonly PartName[];
  /** Seed of such a world that ends early, which small worlds do not have. */
  readonly seed?: number;
  /** Probability that a sync of the disk fails in its worlds. */
  readonly syncFailure?: number;
}

export type Simulation = typeof import("./index.ts");

let bundles = 0;

/** Loads the simulation with the gateway's code, whose sleeps end when the simulation says so. */
export async function loadSimulation(mutant?: Mutant): Promise<Simulation> {
  const outdir = bundleFolder(`simulation-${process.pid}-${bundles++}`);
  await build({
    ...MODULES,
    entryPoints: [join(ROOT, "test/simulation/index.ts")],
    outdir,
    plugins: [
      {
        name: "simulation",
        setup(plugins) {
          plugins.onResolve({ filter: /^node:timers\/promises$/ }, () => ({
            path: join(ROOT, "test/simulation/timers.ts"),
          }));
        },
      },
      mutation(mutant),
    ],
  });
  return import(pathToFileURL(join(outdir, "index.js")).href);
}

/** Removes the guard from the bundled code. */
function mutation(mutant: Mutant | undefined): Plugin {
  return {
    name: "mutation",
    setup(plugins) {
      if (mutant === undefined) return;
      const path = join(ROOT, "src", mutant.file);
      const contents = mutated(mutant);
      plugins.onLoad({ filter: /\.ts$/ }, (file) =>
        file.path === path ? { contents, loader: "ts" } : undefined,
      );
    },
  };
}

/** Returns the file without the guard. @throws Error when its text is not there once */
export function mutated({ file, from, to }: Mutant): string {
  const path = join(ROOT, "src", file);
  const [before, after, ...others] = readFileSync(path, "utf8").split(from);
  if (before === undefined || after === undefined || others.length > 0)
    throw new Error(`${path} has ${JSON.stringify(from)} not once`);
  return before + to + after;
}
