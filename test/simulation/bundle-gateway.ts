import { join } from "node:path";
import { ROOT } from "../helpers/bundle.ts";
import { changeableBundle } from "./changeable-bundle.ts";
import { MUTANTS } from "./mutants.ts";

/** Loads the simulation with the gateway's code, whose sleeps end when the simulation says so. */
export const loadSimulation = changeableBundle<typeof import("./index.ts")>({
  entryPoint: join(ROOT, "test/simulation/index.ts"),
  mutants: MUTANTS,
  plugin: {
    name: "simulation",
    setup(plugins) {
      plugins.onResolve({ filter: /^node:timers\/promises$/ }, () => ({
        path: join(ROOT, "test/simulation/timers.ts"),
      }));
    },
  },
});
