import { configDefaults, defineConfig } from "vitest/config";
import base from "./vitest.config.ts";

/** The slow tests: crash rounds, replicas, other clients and languages, a browser. Most of each is waiting for processes. */
export default defineConfig({
  test: {
    ...base.test,
    include: ["test/**/*.full.test.ts"],
    exclude: configDefaults.exclude,
    isolate: true,
    testTimeout: 600_000,
    hookTimeout: 300_000,
    globalSetup: "test/full-setup.ts",
  },
});
