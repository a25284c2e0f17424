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
    expect: { poll: { timeout: 120_000 } },
    testTimeout: 600_000,
    // Hooks install what tests need from registries.
    hookTimeout: 600_000,
    globalSetup: ["test/setup.ts", "test/full-setup.ts"],
  },
});
