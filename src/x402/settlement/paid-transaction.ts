import { ChainClient, chainIdOf } from "../../chain/chain-client.ts";
import { asHex, asNumber, type Rpc } from "../../chain/rpc.ts";
import type { AcceptedToken } from "../../config/config.ts";
import type { AdoptedPayment } from "../../store/contract/adoption-ledger.ts";
import { PERMIT2_PROXY, UPTO_PROXY } from "../wire/payer-signature.ts";
import { readBlock, readHead } from "./block-view.ts";
import { asLogs, type MinedLog, readTransfer } from "./chain-logs.ts";
import { tokenEvents } from "./eip3009.ts";
import { readPermit } from "./permit2.ts";
import { readCalls } from "./traced-calls.ts";

const TIMEOUT_MS = 10_000;

/** A payment that a transaction made to a configured `pay_to`. */
export type ChainPayment = Omit<AdoptedPayment, "by" | "note"> & { readonly token: AcceptedToken };

/** The transaction made no payment that can be adopted. The message says why, and begins with "The transaction". */
export class NotPaid extends Error {
  override readonly name = "NotPaid";
}

/** A transaction that was mined, in a block that is part of the chain. */
interface Mined {
  readonly rpc: Rpc;
  readonly hash: string;
  readonly logs: readonly MinedLog[];
  readonly block: bigint;
  /** Blocks that confirm it, its own included. */
  readonly confirmations: bigint;
}

/**
 * Reads the exact payments to configured tokens' `pay_to` that a transaction made.
 * @param tokens tokens without an `rpc_url` are left out
 * @throws NotPaid
 * @throws Error when the chain cannot be queried, without the URL
 */
export async function readPaidTransaction(
  tokens: readonly AcceptedToken[],
  hash: string,
): Promise<ChainPayment[]> {
  const readable = tokens.filter(({ rpcUrl }) => rpcUrl !== undefined);
  const networks = [...new Set(readable.map(({ network }) => network))];
  if (networks.length === 0)
    throw new NotPaid("The transaction cannot be read: no accepted token has an rpc_url.");
  for (const network of networks) {
    const own = readable.filter((token) => token.network === network);
    const mined = await findMined(network, own[0]?.rpcUrl ?? "", hash);
    if (mined !== undefined) return paymentsOf(mined, own);
  }
  throw new NotPaid(`The transaction is on none of these chains: ${networks.join(", ")}.`);
}

async function findMined(network: string, rpcUrl: string, hash: string): Promise<Mined | undefined> {
  const client = new ChainClient({ rpcUrl, chainId: chainIdOf(network), timeoutMs: TIMEOUT_MS });
  const rpc = await client.connect();
  const receipt = (await rpc.call("eth_getTransactionReceipt", [hash])) as Record<string, unknown> | null;
  if (receipt === null) return undefined;
  if (receipt.status !== "0x1") throw new NotPaid("The transaction was reverted, and moved nothing.");
  const block = asNumber(asHex(receipt.blockNumber));
  const [head, canonical] = await Promise.all([readHead(rpc), readBlock(rpc, block)]);
  if (canonical.hash !== receipt.blockHash)
    throw new NotPaid("The transaction is in a block that was replaced: try again.");
  return { rpc, hash, logs: asLogs(receipt.logs), block, confirmations: head - block + 1n };
}

async function paymentsOf(mined: Mined, tokens: readonly AcceptedToken[]): Promise<ChainPayment[]> {
  const isMetered = mined.logs.some(({ address }) => address.toLowerCase() === UPTO_PROXY);
  const found: ChainPayment[] = [];
  for (const token of tokens) {
    const paid = token.transferMethod === "permit2" ? await permit2(mined, token) : eip3009(mined, token);
    for (const payment of paid) if (!found.some((one) => isSame(one, payment))) found.push(payment);
  }
  if (found.length === 0 && isMetered)
    throw new NotPaid(
      "The transaction made a payment by use, which was charged after its job ran: it cannot be adopted.",
    );
  if (found.length === 0)
    throw new NotPaid("The transaction made no exact payment of an accepted token to its pay_to.");
  const needed = Math.max(...found.map(({ token }) => token.confirmations));
  if (mined.confirmations < BigInt(needed))
    throw new NotPaid(
      `The transaction has ${mined.confirmations} of ${needed} confirmations: try again later.`,
    );
  return found;
}

/** Takes each use of an authorization with the transfer that directly follows it, as the token's contract logs them. */
function eip3009({ logs, hash, block }: Mined, token: AcceptedToken): ChainPayment[] {
  const [asset, payTo] = [token.asset.toLowerCase(), token.payTo.toLowerCase()];
  const events = tokenEvents(logs, asset);
  return events.flatMap((used, i) => {
    const moved = events[i + 1];
    if (used.name !== "AuthorizationUsed" || moved?.name !== "Transfer") return [];
    if (moved.from !== used.authorizer || moved.to !== payTo) return [];
    const key = { network: token.network, asset, payer: used.authorizer, nonce: used.nonce };
    return [toPayment(token, key, moved.value, hash, block)];
  });
}

/** Takes each call to x402's contract with the transfer that it made. */
async function permit2({ rpc, logs, hash, block }: Mined, token: AcceptedToken): Promise<ChainPayment[]> {
  if (!logs.some(({ address }) => address.toLowerCase() === PERMIT2_PROXY)) return [];
  const [asset, payTo] = [token.asset.toLowerCase(), token.payTo.toLowerCase()];
  const sent = (await rpc.call("eth_getTransactionByHash", [hash])) as Record<string, unknown> | null;
  const isDirect = typeof sent?.to === "string" && sent.to.toLowerCase() === PERMIT2_PROXY;
  const calls = isDirect ? [{ input: asHex(sent.input), logs }] : await readCalls(rpc, hash, PERMIT2_PROXY);
  return calls.flatMap(({ input, logs }) => {
    const permit = readPermit(input);
    if (permit === undefined) return [];
    const { payer, nonce } = permit;
    const moved = logs
      .filter(({ address }) => address.toLowerCase() === asset)
      .map(readTransfer)
      .find((transfer) => transfer?.from === payer && transfer?.to === payTo);
    if (moved === undefined) return [];
    return [toPayment(token, { network: token.network, asset, payer, nonce }, moved.value, hash, block)];
  });
}

function toPayment(
  token: AcceptedToken,
  key: ChainPayment["key"],
  value: bigint,
  hash: string,
  block: bigint,
): ChainPayment {
  const { transferMethod, payTo } = token;
  const paid = { amount: value.toString(), transaction: hash, blockNumber: block.toString() };
  return { key, transferMethod, payTo: payTo.toLowerCase(), ...paid, token };
}

function isSame({ key }: ChainPayment, { key: other }: ChainPayment): boolean {
  return key.asset === other.asset && key.payer === other.payer && key.nonce === other.nonce;
}
