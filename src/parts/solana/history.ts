import { ChainClient } from "../../chain/chain-client.ts";
import type { Rpc } from "../../chain/rpc.ts";
import type { AcceptedToken } from "../../config/config.ts";
import {
  type ChainHistory,
  NotPaid,
  type ReadableToken,
  type ReceivedTransfer,
} from "../../x402/settlement/chain-history.ts";
import type { ChainPayment } from "../../x402/settlement/chain-payment.ts";
import { tokenAccountOf } from "./addresses.ts";
import {
  asObject,
  type LandedTransaction,
  type ListedSignature,
  listPages,
  readFirstSlot,
  readLanded,
  readReference,
} from "./chain.ts";
import { readLandedTransfer, type Transfer } from "./payment.ts";

/** Longest time to wait for one answer. */
const TIMEOUT_MS = 10_000;
/** Transactions that are read at once. */
const READ_AT_ONCE = 16;

/** Reads payments from the finalized blocks of a cluster. */
export const SOLANA_HISTORY: ChainHistory = {
  async paymentsIn(signature, tokens) {
    const rpc = await connect(tokens[0]);
    const landed = await readLanded(rpc, signature, "finalized");
    if (landed === undefined) {
      if ((await readLanded(rpc, signature, "confirmed")) === undefined) return undefined;
      throw new NotPaid("The transaction is not finalized yet: try again later.");
    }
    if (landed.hasFailed) throw new NotPaid("The transaction failed, and moved nothing.");
    const transfer = transferOf(landed);
    const token = tokens.find((one) => isPaid(landed, transfer, one));
    return token === undefined ? [] : [toPayment(landed, transfer, token)];
  },

  async receivedSince(token, since) {
    const rpc = await connect(token);
    await requireBlocks(rpc, since);
    const listed = await listSince(rpc, tokenAccountOf(token.payTo, token.asset), since);
    const found: ReceivedTransfer[] = [];
    for (let i = 0; i < listed.length; i += READ_AT_ONCE) {
      const some = listed.slice(i, i + READ_AT_ONCE);
      const read = await Promise.all(some.map((one) => readReceived(rpc, one, token)));
      for (const transfer of read) if (transfer !== undefined) found.push(transfer);
    }
    return found;
  },
};

function connect({ network, rpcUrl }: ReadableToken): Promise<Rpc> {
  const cluster = { id: network.slice("solana:".length), read: readReference };
  return new ChainClient({ rpcUrl, timeoutMs: TIMEOUT_MS }, cluster).connect();
}

/** Parses a transaction as a payment. @throws NotPaid if the official client makes no such transaction */
function transferOf({ bytes }: LandedTransaction): Transfer {
  try {
    return readLandedTransfer(bytes);
  } catch (error) {
    throw new NotPaid(`The transaction made no exact payment: ${(error as Error).message}.`);
  }
}

function isPaid(landed: LandedTransaction, transfer: Transfer, { asset, payTo }: AcceptedToken): boolean {
  const { mint, destination, amount } = transfer;
  return (
    mint === asset && destination === tokenAccountOf(payTo, asset) && landed.received(destination) === amount
  );
}

function toPayment(
  { signature, slot }: LandedTransaction,
  { transaction, payer, amount }: Transfer,
  token: AcceptedToken,
): ChainPayment {
  const { network, asset, payTo, transferMethod } = token;
  return {
    key: { network, asset, payer, nonce: transaction.messageHash },
    transferMethod,
    payTo,
    amount: amount.toString(),
    transaction: signature,
    blockNumber: String(slot),
    token,
  };
}

/** @throws Error if the node does not have the blocks since a time */
async function requireBlocks(rpc: Rpc, since: number): Promise<void> {
  const first = await readFirstSlot(rpc);
  const secs = first === 0 ? null : await rpc.call("getBlockTime", [first]);
  if (typeof secs === "number" && secs * 1_000 > since)
    throw new Error(
      `its blocks begin at ${new Date(secs * 1_000).toISOString()}; expected an RPC that has those since the copy`,
    );
}

/** Lists the finalized transactions without an error that name an account, oldest first. A block may have no time. */
async function listSince(rpc: Rpc, account: string, since: number): Promise<readonly ListedSignature[]> {
  const isEarlier = ({ blockTime }: ListedSignature) =>
    typeof blockTime === "number" && blockTime * 1_000 < since;
  const found: ListedSignature[] = [];
  for await (const page of listPages(rpc, account, { commitment: "finalized" })) {
    found.push(...page.filter((one) => one.err === null && !isEarlier(one)));
    if (page.some(isEarlier)) break;
  }
  return found.reverse();
}

/** Reads what a transaction moved to the seller, whatever its instructions are. @returns undefined if it moved nothing there */
async function readReceived(
  rpc: Rpc,
  { signature, slot }: ListedSignature,
  token: AcceptedToken,
): Promise<ReceivedTransfer | undefined> {
  const options = { encoding: "base64", commitment: "finalized", maxSupportedTransactionVersion: 0 };
  const answer = await rpc.call("getTransaction", [signature, options]);
  if (answer === null) throw new Error(`it lists ${signature}, and does not have it`);
  const { preTokenBalances = [], postTokenBalances = [] } = asObject(asObject(answer).meta);
  const moved = new Map<string, bigint>();
  for (const [sign, balances] of [
    [-1n, preTokenBalances],
    [1n, postTokenBalances],
  ] as const)
    for (const { mint, owner, uiTokenAmount } of balances as readonly OwnedBalance[])
      if (mint === token.asset)
        moved.set(owner, (moved.get(owner) ?? 0n) + sign * BigInt(uiTokenAmount.amount));
  const amount = moved.get(token.payTo) ?? 0n;
  if (amount <= 0n) return undefined;
  const [from = "?"] = [...moved].filter(([, units]) => units < 0n).map(([owner]) => owner);
  return { token, from, amount, transaction: signature, block: BigInt(slot) };
}

interface OwnedBalance {
  readonly mint: string;
  readonly owner: string;
  readonly uiTokenAmount: { readonly amount: string };
}
