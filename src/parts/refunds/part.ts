import type { Part } from "../../part.ts";

/** Pays failed jobs back. */
export const part: Part = {
  async load({ x402 }) {
    const config = x402?.refunds;
    if (config === undefined) return undefined;
    const { Refunds } = await import("./refunds.ts");
    return ({ store, logger, telemetry }) => {
      const refunds = new Refunds({ config, tokens: x402?.acceptedTokens ?? [], store, logger, telemetry });
      return {
        gauges: () => refunds.gauges(),
        start: () => refunds.start(),
        reload: (next) => refunds.use(next.x402?.acceptedTokens ?? []),
        stop: () => refunds.stop(),
      };
    };
  },
};
