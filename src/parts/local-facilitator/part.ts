import type { Part } from "../../part.ts";

/** Settles payments with transactions of jobgate's own accounts. */
export const part: Part = {
  async load({ x402: config }, loadMethods) {
    if (!config?.facilitators.some(({ kind }) => kind === "local")) return undefined;
    const [{ LocalFacilitator }, methods] = await Promise.all([
      import("./local-facilitator.ts"),
      loadMethods(),
    ]);
    return ({ store, logger, telemetry }) => {
      // The x402 gateway starts and stops it.
      const facilitator = new LocalFacilitator({ config, methods, journal: store, logger, telemetry });
      return { sources: { localFacilitator: facilitator }, gauges: () => facilitator.gauges() };
    };
  },
};
