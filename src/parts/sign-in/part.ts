import type { Part } from "../../part.ts";

/** Payers sign in to read their calls: x402's extension `sign-in-with-x`, and the list at `/x402/calls`. */
export const part: Part = {
  async x402(services) {
    const { PayerSignIn } = await import("./payer-sign-in.ts");
    return new PayerSignIn(services);
  },
};
