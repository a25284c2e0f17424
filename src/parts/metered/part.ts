import type { Part } from "../../part.ts";
import { meteredKeys, USED } from "./config.ts";

/** Metered jobs: a payer signs a ceiling, and is charged for the job's usage. */
export const part: Part = {
  entries: meteredKeys,
  charge: USED,
  ceilingScheme: async () => (await import("./scheme.ts")).UPTO,
};
