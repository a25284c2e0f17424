import type { Part } from "../../part.ts";

/** Lets operators pause jobs, webhook endpoints and APIs. */
export const part: Part = {
  async load() {
    const [{ Pauses }, { PAUSES }] = await Promise.all([import("./pauses.ts"), import("./store/module.ts")]);
    return (host) => {
      const { store, dispatcher, logger } = host;
      const configuration = () => host.config;
      const isShared = store.sharedLeases !== undefined;
      const pauses = new Pauses({ ledger: store.of(PAUSES), dispatcher, configuration, isShared, logger });
      return {
        x402: { open: () => ({ terms: pauses.terms }) },
        admitsWebhook: ({ path }) => pauses.requireEndpoint(path),
        admitsUnpaid: (job) => pauses.requireId(job),
        ownGauges: [pauses.gauge],
        operator: {
          async loadApi() {
            const { pauseOperation } = await import("./operator.ts");
            return pauseOperation({ pauses, configuration, logger });
          },
        },
        start: () => pauses.start(),
        reload: (config) => pauses.apply(config),
        stop: () => pauses.stop(),
      };
    };
  },
};
