import type { Part } from "../../part.ts";
import { serviceTable } from "./config.ts";

/** Verifies and settles for other sellers. */
export const part: Part = {
  table: serviceTable,
  async load(whole, loadMethods) {
    const config = serviceTable.in(whole);
    if (config === undefined) return undefined;
    const [{ FacilitatorService }, { versions }] = await Promise.all([import("./service.ts"), loadMethods()]);
    return ({ additions, serverAt, logger, telemetry }) => {
      const facilitator = () => {
        const source = additions("sources").find(({ localFacilitator }) => localFacilitator);
        if (source?.localFacilitator === undefined)
          throw new Error("no part of this build settles payments itself");
        return source.localFacilitator;
      };
      const server = serverAt(config.bindAddress);
      const service = new FacilitatorService({ config, facilitator, versions, server, logger, telemetry });
      return {
        listener: {
          name: "facilitator",
          table: "x402.facilitator_service",
          bindAddress: config.bindAddress,
          service,
        },
        open: () => service.start(),
        reload: (next) => service.reload(serviceTable.in(next) ?? config),
        close: () => service.stop(),
      };
    };
  },
};
