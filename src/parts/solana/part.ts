import type { Part } from "../../part.ts";
import { solanaTokens } from "./config.ts";

/** Payments on Solana: tokens of the SPL Token program. */
export const part: Part = {
  tokenMethod: solanaTokens,
  async method() {
    const [{ SOLANA }, { solanaSettlement: ownSettlement }] = await Promise.all([
      import("./method.ts"),
      import("./settler/own-settler.ts"),
    ]);
    return { ...SOLANA, ownSettlement };
  },
  payer: async () => (await import("./payer.ts")).SOLANA_PAYER,
  async checkPeers({ x402 }) {
    if (!x402?.acceptedTokens.some(({ transferMethod }) => transferMethod === solanaTokens.name))
      return { notes: [], problems: [] };
    return (await import("./online-check.ts")).checkTokens(x402);
  },
};
