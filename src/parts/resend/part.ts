import type { Part } from "../../part.ts";
import type { CalledJob } from "../../store/contract/work-queue.ts";
import { ACCEPTED_CALLS } from "./store/module.ts";

/** Lets operators send a JobCall to its job once more. */
export const part: Part = {
  load: () => (host) => ({
    operator: {
      async loadApi() {
        const { resendOperation } = await import("./operator.ts");
        const { store, logger } = host;
        return resendOperation({
          calls: store.of(ACCEPTED_CALLS),
          store,
          configuration: () => host.config,
          admit: (job: CalledJob) => {
            for (const admits of host.additions("admitsUnpaid")) admits(job);
          },
          logger,
        });
      },
    },
  }),
};
