import type { Part } from "../../part.ts";
import { bodiesTable } from "./config.ts";
import { BODIES } from "./store/module.ts";

/** Shows operators the bodies and results of JobCalls, if the configuration allows it. */
export const part: Part = {
  table: bodiesTable,
  load: () => (host) => ({
    operator: {
      async loadApi() {
        const { bodyOperation } = await import("./operator.ts");
        const { store, logger } = host;
        const isAllowed = () => bodiesTable.in(host.config) === true;
        return bodyOperation({ bodies: store.of(BODIES), store, isAllowed, logger });
      },
    },
  }),
};
