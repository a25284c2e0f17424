import type { Part } from "../../part.ts";

/** Several facilitators: the next facilitator is called while the first one fails or takes long. */
export const part: Part = {
  ability: "failover",
  async load({ x402 }) {
    if (x402 === undefined || x402.facilitators.length < 2) return undefined;
    const { SeveralFacilitators } = await import("./several-facilitators.ts");
    return () => ({ sources: { openFacilitators: (options) => new SeveralFacilitators(options) } });
  },
};
