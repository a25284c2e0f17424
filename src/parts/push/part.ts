import type { Part } from "../../part.ts";
import { PushRunners } from "./push-runners.ts";

/** Sends JobCalls to runners by HTTP. */
export const part: Part = {
  load:
    () =>
    ({ dispatcher, config, logger }) => {
      const runners = new PushRunners({ dispatcher, config: config.runner, logger });
      return {
        start: () => runners.use(config.push),
        reload: ({ push }) => runners.use(push),
        stop: () => runners.stop(),
      };
    },
};
