import type { Part } from "../../part.ts";
import { pushTable } from "./config.ts";

/** Sends JobCalls to runners by HTTP. */
export const part: Part = {
  table: pushTable,
  async load(config) {
    // The HTTP client is loaded only if there are push targets.
    const load = () => import("./push-target.ts");
    if (pushTable.in(config)?.length) await load();
    return (host) => {
      let runners: ReturnType<Awaited<ReturnType<typeof load>>["pushRunners"]> | undefined;
      const use = async (next: typeof config) => {
        const targets = pushTable.in(next) ?? [];
        if (runners === undefined && targets.length === 0) return;
        runners ??= (await load()).pushRunners(host);
        runners.use(targets);
      };
      return {
        async prepare(next) {
          if (pushTable.in(next)?.length) await load();
        },
        start: () => use(config),
        reload: use,
        stop: async () => runners?.stop(),
      };
    };
  },
};
