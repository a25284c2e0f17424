import type { Part } from "../../part.ts";
import { callersTable } from "./config.ts";

/** Restricted jobs, which only callers that a contract permits can buy. */
export const part: Part = {
  table: callersTable,
  ability: "restricted jobs",
  async x402(services) {
    const { RestrictedJobs } = await import("./restricted-jobs.ts");
    return new RestrictedJobs(services);
  },
  async checkPeers({ x402 }) {
    if (x402 === undefined) return { notes: [], problems: [] };
    const { checkContracts } = await import("./online-check.ts");
    return { notes: [], problems: await checkContracts(x402) };
  },
};
