import type { Part } from "../../part.ts";
import { a2aTable } from "./config.ts";

/** The jobs for sale as skills of an agent of the Agent2Agent protocol, at `/a2a`. */
export const part: Part = {
  table: a2aTable,
  paths: { x402: ["/a2a", "/.well-known/agent-card.json"] },
  async checkListing(config) {
    if (config.x402 === undefined || a2aTable.in(config) === undefined) return [];
    return (await import("./listing-check.ts")).checkAgentCard(config.x402);
  },
  async x402(services) {
    const { A2a } = await import("./a2a.ts");
    return new A2a(services);
  },
};
