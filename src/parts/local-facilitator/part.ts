import type { Part } from "../../part.ts";
import { findLocal, localKeys } from "./config.ts";

/** Time limit of one RPC call of the check. */
const MAX_TIMEOUT_MS = 10_000;

/** Settles payments with transactions of jobgate's own accounts. */
export const part: Part = {
  entries: localKeys,
  async load({ x402: config }, loadMethods) {
    if (config === undefined || findLocal(config.facilitators) === undefined) return undefined;
    const [{ LocalFacilitator }, methods] = await Promise.all([
      import("./local-facilitator.ts"),
      loadMethods(),
    ]);
    return ({ store, logger, telemetry }) => {
      // The x402 gateway starts and stops the facilitator.
      const facilitator = new LocalFacilitator({ config, methods, store, logger, telemetry });
      return {
        sources: { localFacilitator: facilitator },
        gauges: () => facilitator.gauges(),
        holdings: { pays: "settlements", read: () => facilitator.holdings() },
      };
    };
  },

  async checkPeers({ x402 }, loadMethods) {
    const local = findLocal(x402?.facilitators);
    if (x402 === undefined || local === undefined) return { notes: [], problems: [] };
    const [{ checkChains }, methods] = await Promise.all([import("./online-check.ts"), loadMethods()]);
    return checkChains(local, methods, {
      path: ["x402", "facilitators", x402.facilitators.indexOf(local)],
      timeoutMs: Math.min(x402.facilitatorTimeoutMs, MAX_TIMEOUT_MS),
    });
  },
};
