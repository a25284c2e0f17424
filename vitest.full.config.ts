import { configDefaults, defineConfig } from "vitest/config";
import base from "./vitest.config.ts";

/** The slow tests: crash rounds, replicas, other clients and languages, a browser. Most of each is waiting for processes. */
export default defineConfig({
  test: {
    ...base.test,
    include: ["test/**/*.full.test.ts"],
    exclude: configDefaults.exclude,
    // Tests of one file that run at once.
    maxConcurrency: 3,
    // Limits only end what hangs: on a busy machine everything may take ten times longer. Hooks also install from registries.
    expect: { poll: { timeout: 300_000, interval: 100 } },
    env: { JOBGATE_TEST_WAIT_MS: "300000" },
    testTimeout: 1_800_000,
    hookTimeout: 1_800_000,
    globalSetup: ["test/setup.ts", "test/full-setup.ts"],
  },
});
