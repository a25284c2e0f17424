import type { Part } from "../../part.ts";
import { mppTable } from "./config.ts";

/** The Machine Payments Protocol: beside x402 on the jobs' routes, at `/mpp/jobs/…`, and in JSON-RPC messages. */
export const part: Part = {
  table: mppTable,
  paths: { x402: ["/mpp/"] },
  async x402(services) {
    const { Mpp } = await import("./mpp.ts");
    return new Mpp(services);
  },
};
