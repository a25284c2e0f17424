import { randomBytes } from "node:crypto";
import type { Method, PayerFundsReader } from "../../x402/methods/method.ts";
import { LOW_BALANCE } from "../../x402/methods/payer-balance.ts";
import { SOLANA_PROOF } from "./account-proof.ts";
import { tokenAccountOf } from "./addresses.ts";
import { latestBlockhash, readBalance } from "./chain.ts";
import { solanaTokens } from "./config.ts";
import { SolanaEvidence } from "./evidence.ts";
import { SOLANA_HISTORY } from "./history.ts";
import {
  hasSealedMemo,
  isSignedByPayer,
  payload,
  readTransfer,
  sealedMemo,
  type Transfer,
  transferIn,
} from "./payment.ts";
import { describeCluster } from "./portable/clusters.ts";

const { name, title, endsSoon } = solanaTokens;

/** The balance of the account that a payment takes the token from. */
const SOLANA_FUNDS: PayerFundsReader = {
  read: (rpc, payment) => readBalance(rpc, transferIn(payment).source),
  async findShortfall(rpc, payment) {
    const balance = await readBalance(rpc, transferIn(payment).source);
    return (balance ?? 0n) < BigInt(payment.amount) ? LOW_BALANCE : undefined;
  },
};

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
    async make({ kind: { feePayer }, connect, seal }) {
      if (typeof feePayer !== "string") return undefined;
      const latest = await connect()
        .then((rpc) => rpc && latestBlockhash(rpc))
        .catch(() => undefined);
      // Each payment gets a memo of its own, because otherwise two purchases with one blockhash would be one
      // transaction. A buyer who gets no blockhash queries another RPC.
      if (latest === undefined) return { feePayer, memo: randomBytes(16).toString("hex") };
      const { fields, readAt } = latest;
      return { feePayer, memo: sealedMemo(fields.recentBlockhash, readAt, seal), ...fields };
    },
    hasOwnEnd: (payment, seal) => hasSealedMemo(transferOf(payment), seal),
  },
  funds: SOLANA_FUNDS,
  accountProof: SOLANA_PROOF,
  describeNetwork: describeCluster,
  watch: (token) => new SolanaEvidence(token),
  history: SOLANA_HISTORY,
  transaction: /^[1-9A-HJ-NP-Za-km-z]{64,88}$/,
};

function transferOf({ payload }: { readonly payload: { readonly payload: object } }): Transfer {
  return readTransfer((payload.payload as { readonly transaction: string }).transaction);
}
