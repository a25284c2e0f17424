import type { Part } from "../../part.ts";

/** Settles payments with transactions of jobgate's own accounts. */
export const part: Part = {
  async load({ x402: config }) {
    if (!config?.facilitators.some(({ kind }) => kind === "local")) return undefined;
    const { LocalFacilitator } = await import("./local-facilitator.ts");
    return ({ store, logger, telemetry }) => {
      // The x402 gateway starts and stops it.
      const facilitator = new LocalFacilitator({ config, journal: store, logger, telemetry });
      return { sources: { localFacilitator: facilitator }, gauges: () => facilitator.gauges() };
    };
  },
};
