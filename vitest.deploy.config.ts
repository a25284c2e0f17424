import { configDefaults, defineConfig } from "vitest/config";
import full from "./vitest.full.config.ts";

/** Deployments as operators run them, with what Debian's packages bring. Run by `npm run test:deploy`, as root. */
export default defineConfig({
  test: {
    ...full.test,
    include: ["test/deploy/*.deploy.test.ts"],
    exclude: configDefaults.exclude,
    maxWorkers: 1,
    globalSetup: ["test/setup.ts", "test/deploy/setup.ts"],
  },
});
