import type { Part } from "../../part.ts";
import { identifierKeys } from "./config.ts";

/** Identifiers that clients give their purchases: x402's extension `payment-identifier`. */
export const part: Part = {
  entries: identifierKeys,
  purchaseNames: async () => (await import("./identifiers.ts")).IDENTIFIERS,
  x402: async () => (await import("./identifiers.ts")).IDENTIFIED_SALES,
};
