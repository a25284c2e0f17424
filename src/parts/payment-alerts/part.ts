import type { Part } from "../../part.ts";
import { PAYMENT_ALERTS } from "./store/module.ts";

/** Keeps the payments that a person should look at although they are decided: lost charges, and records that the chain contradicts. */
export const part: Part = {
  load: () => (host) => ({
    operator: {
      async loadApi() {
        const { alertOperation } = await import("./operator.ts");
        const ledger = host.store.of(PAYMENT_ALERTS);
        return alertOperation({ ledger, configuration: () => host.config, clock: Date.now });
      },
    },
  }),
};
