import { configDefaults, defineConfig } from "vitest/config";
import { LongestFirst } from "./test/longest-first.ts";

/**
 * Options with which V8 waits longer before it optimizes a function. Most of a test's code runs only a few times, and this saves
 * a seventh of the workers' CPU. The V8 of Node 22 and later refuses to start with the option.
 */
const OPTIMIZE_LATER = process.versions.v8.startsWith("11.") ? ["--interrupt-budget=1000000"] : [];

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // What needs more than Node, or minutes, is in the full tests and in those of deployments.
    exclude: [...configDefaults.exclude, "**/*.{deploy,full}.test.ts"],
    pool: "forks",
    // Many tests wait for timers and other processes, so that fewer workers leave two cores idle.
    maxWorkers: 5,
    // A larger space for new objects saves a seventh of the workers' CPU.
    execArgv: ["--max-semi-space-size=32", ...OPTIMIZE_LATER],
    // Workers read transformed modules from files, which the next run finds there too. It saves a sixth of a first run's CPU.
    experimental: { fsModuleCache: true },
    // Importing viem, gRPC and the rest costs more than most files' tests: each worker does it once for all its files.
    // So a file must not leave anything behind: no fake timers, no changed environment, no open server.
    isolate: false,
    globalSetup: "test/setup.ts",
    sequence: { sequencer: LongestFirst },
    // A busy machine takes its time; a poll that succeeds ends at once.
    expect: { poll: { timeout: 40_000, interval: 100 } },
    testTimeout: 60_000,
    hookTimeout: 60_000,
    teardownTimeout: 10_000,
  },
});
