import type { Part } from "../../part.ts";
import { receiptsTable } from "./config.ts";

/** Signed offers and receipts: x402's extension `offer-receipt`. */
export const part: Part = {
  table: receiptsTable,
  paths: { x402: ["/.well-known/did.json"] },
  x402: async ({ clock }) => ({
    async open(x402) {
      const config = receiptsTable.in(x402);
      if (config === undefined) return undefined;
      const { ReceiptSigner } = await import("./receipt-signer.ts");
      const extensions = new ReceiptSigner({ config, x402, clock });
      return { extensions, routes: () => [extensions.didRoute] };
    },
  }),
};
