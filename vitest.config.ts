import { configDefaults, defineConfig } from "vitest/config";
import { LongestFirst } from "./test/longest-first.ts";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // What needs more than Node, or minutes, is in the full tests and in those of deployments.
    exclude: [...configDefaults.exclude, "**/*.{deploy,full}.test.ts"],
    pool: "forks",
    // Many tests wait for timers and other processes, so that fewer workers leave two cores idle.
    maxWorkers: 5,
    // A larger space for new objects saves a seventh of the workers' CPU. Most of a test's code runs only a few times: V8
    // saves another seventh if it waits longer before it optimizes a function.
    execArgv: ["--max-semi-space-size=32", "--interrupt-budget=1000000"],
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
