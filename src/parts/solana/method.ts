import { randomBytes } from "node:crypto";
import type { Method } from "../../x402/methods/method.ts";
import { tokenAccountOf } from "./addresses.ts";
import { latestBlockhash } from "./chain.ts";
import { solanaTokens } from "./config.ts";
import { SolanaEvidence } from "./evidence.ts";
import { isSignedByPayer, payload, readTransfer, type Transfer } from "./payment.ts";

const { name, title, endsSoon } = solanaTokens;

/** Solana: the payer signs a transaction that moves the token, and a facilitator signs as its fee payer and sends it. */
export const SOLANA: Method = {
  ...{ name, title, endsSoon },
  extensions: {},
  owns: (payload) => "transaction" in payload,
  payload: { schema: payload, kind: "a transaction of Solana that pays" },
  recipientOf: ({ payTo, asset }) => tokenAccountOf(payTo, asset),
  pays(payment, { token, amount, extra }) {
    const { mint, decimals, memo, feePayer } = transferOf(payment);
    const isTransfer =
      payment.to === tokenAccountOf(token.payTo, token.asset) &&
      payment.value === BigInt(amount) &&
      mint === token.asset &&
      decimals === token.decimals;
    return isTransfer && memo === extra?.memo && feePayer === extra?.feePayer;
  },
  compared: "token, its recipient, its memo, its fee payer",
  async recoverSigner(payment) {
    const transfer = transferOf(payment);
    return isSignedByPayer(transfer) ? transfer.payer : undefined;
  },
  fresh: {
    keys: ["feePayer", "memo", "recentBlockhash", "lastValidBlockHeight"],
    async make({ kind: { feePayer }, connect }) {
      if (typeof feePayer !== "string") return undefined;
      // Without a memo of its own, two purchases at one blockhash would be one transaction.
      const memo = randomBytes(16).toString("hex");
      // A buyer who gets no blockhash asks an RPC of his own.
      const blockhash = await connect()
        .then((rpc) => rpc && latestBlockhash(rpc))
        .catch(() => undefined);
      return { feePayer, memo, ...blockhash };
    },
  },
  watch: (token) => new SolanaEvidence(token),
  transaction: /^[1-9A-HJ-NP-Za-km-z]{64,88}$/,
};

function transferOf({ payload }: { readonly payload: { readonly payload: object } }): Transfer {
  return readTransfer((payload.payload as { readonly transaction: string }).transaction);
}
