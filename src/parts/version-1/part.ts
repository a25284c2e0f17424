import type { Part } from "../../part.ts";

/** x402 version 1: payments in `X-PAYMENT`, offers in the body of a 402. */
export const part: Part = {
  version: async () => (await import("./version-1.ts")).VERSION_1,
};
