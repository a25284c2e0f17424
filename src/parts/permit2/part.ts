import type { Part } from "../../part.ts";
import { permit2Tokens } from "./config.ts";

/** Payments by Permit2, a contract that moves any token which its payers have approved. */
export const part: Part = {
  tokenMethod: permit2Tokens,
  method: async () => (await import("./method.ts")).PERMIT2,
};
