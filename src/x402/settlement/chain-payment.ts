import type { Rpc } from "../../chain/rpc.ts";
import type { AcceptedToken } from "../../config/config.ts";
import { oneSpelling } from "../../core/payment.ts";
import type { AdoptedPayment } from "../../store/contract/adoption-ledger.ts";
import type { MinedLog } from "./chain-logs.ts";

/** A transaction that was mined, in a block that is part of the chain. */
export interface MinedTransaction {
  readonly rpc: Rpc;
  readonly hash: string;
  readonly logs: readonly MinedLog[];
  readonly block: bigint;
  /** Number of blocks that confirm the transaction, including its own. */
  readonly confirmations: bigint;
}

/** A payment that a transaction made to a configured `pay_to`. */
export type ChainPayment = Omit<AdoptedPayment, "by" | "note"> & { readonly token: AcceptedToken };

/** Returns the payment of a token that a transaction made. */
export function toChainPayment(
  { hash, block }: MinedTransaction,
  token: AcceptedToken,
  paid: { readonly payer: string; readonly nonce: string; readonly value: bigint },
): ChainPayment {
  const { network, asset, transferMethod, payTo } = token;
  return {
    key: { network, asset: oneSpelling(asset), payer: paid.payer, nonce: paid.nonce },
    transferMethod,
    payTo: oneSpelling(payTo),
    amount: paid.value.toString(),
    transaction: hash,
    blockNumber: block.toString(),
    token,
  };
}
