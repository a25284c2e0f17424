import type { Part } from "../../part.ts";

/** Signed offers and receipts: x402's extension `offer-receipt`. */
export const part: Part = {
  x402: async ({ clock }) => ({
    async open({ receipts: config, publicUrl }) {
      if (config === undefined) return undefined;
      const { ReceiptSigner } = await import("./receipt-signer.ts");
      const receipts = new ReceiptSigner({ config, publicUrl, clock });
      return { receipts, routes: () => [receipts.didRoute] };
    },
  }),
};
