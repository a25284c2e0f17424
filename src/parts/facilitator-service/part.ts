import type { Part } from "../../part.ts";

/** Verifies and settles for other sellers. */
export const part: Part = {
  async load({ x402 }) {
    const config = x402?.facilitatorService;
    if (config === undefined) return undefined;
    const { FacilitatorService } = await import("./service.ts");
    return ({ localFacilitator: facilitator, serverAt, logger, telemetry }) => {
      if (facilitator === undefined) throw new Error("no part of this build settles payments itself");
      const server = serverAt(config.bindAddress);
      const service = new FacilitatorService({ config, facilitator, server, logger, telemetry });
      return {
        listener: {
          name: "facilitator",
          table: "x402.facilitator_service",
          bindAddress: config.bindAddress,
          service,
        },
        open: () => service.start(),
        reload: ({ x402: next }) => next?.facilitatorService && service.reload(next.facilitatorService),
        close: () => service.stop(),
      };
    };
  },
};
