import type { Part } from "../../part.ts";
import { pushTable } from "./config.ts";

/** Sends JobCalls to runners by HTTP. */
export const part: Part = {
  table: pushTable,
  async load() {
    // Loaded without a target, because a reload may add one.
    const { PushRunners } = await import("./push-runners.ts");
    return ({ dispatcher, config, logger }) => {
      const runners = new PushRunners({ dispatcher, config: config.runner, logger });
      return {
        async prepare(next) {
          if (pushTable.in(next)?.length) await import("./push-target.ts");
        },
        start: () => runners.use(pushTable.in(config) ?? []),
        reload: (next) => runners.use(pushTable.in(next) ?? []),
        stop: () => runners.stop(),
      };
    };
  },
};
