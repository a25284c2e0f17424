import { configDefaults, defineConfig } from "vitest/config";
import base from "./vitest.config.ts";

/** The slow tests: crash rounds, other clients and languages. One file at a time, since each starts many processes. */
export default defineConfig({
  test: {
    ...base.test,
    include: ["test/**/*.full.test.ts"],
    exclude: configDefaults.exclude,
    testTimeout: 600_000,
    hookTimeout: 300_000,
    fileParallelism: false,
    globalSetup: "test/full-setup.ts",
  },
});
