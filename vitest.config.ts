import { configDefaults, defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // What needs more than Node, or minutes, is in the full tests.
    exclude: [...configDefaults.exclude, "**/*.full.test.ts"],
    pool: "forks",
    // Most of a test is waiting for other processes: one more worker than Vitest takes of two cores.
    maxWorkers: 2,
    // Worker threads started by the code under test inherit this, and so can be TypeScript files too.
    execArgv: ["--import", "tsx"],
    // Real processes on a busy machine: there, one more try. Locally a test that fails now and then is to be seen.
    retry: process.env.CI ? 1 : 0,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    teardownTimeout: 10_000,
  },
});
