import { configDefaults, mergeConfig } from "vitest/config";
import base from "./vitest.config.ts";

export default mergeConfig(base, {
  test: { exclude: configDefaults.exclude, testTimeout: 600_000, hookTimeout: 300_000, fileParallelism: false },
});
