import * as z from "zod";
import { required } from "../../config/check-shape.ts";
import { ConfigTable } from "../../config/config-table.ts";
import { readSigner, type Signer, signer } from "../../config/signers.ts";

/** The key that signs offers and receipts. */
export interface ReceiptsConfig {
  readonly signer: Signer;
}

/** `[x402.receipts]` */
export const receiptsTable = ConfigTable.of({
  in: ["x402"],
  keys: {
    receipts: z
      .object({ signer: signer.describe('a table such as { private_key = "file:/run/secrets/receipts" }') })
      .optional(),
  },
  // The key signs no transactions, so any key will do. The key of `pay_to` is best.
  check({ receipts }, { place }) {
    return receipts?.signer && readSigner(receipts.signer, place.at("receipts", "signer"));
  },
  complete: ({ receipts }, read): ReceiptsConfig | undefined => receipts && { signer: required(read) },
});
