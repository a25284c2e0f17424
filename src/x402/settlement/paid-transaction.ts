import { ChainClient, chainIdOf } from "../../chain/chain-client.ts";
import { asHex, asNumber } from "../../chain/rpc.ts";
import type { AcceptedToken } from "../../config/config.ts";
import type { Methods } from "../methods/methods.ts";
import { readBlock, readHead } from "./block-view.ts";
import { asLogs } from "./chain-logs.ts";
import type { ChainPayment, MinedTransaction } from "./chain-payment.ts";

const TIMEOUT_MS = 10_000;

/** The transaction made no payment that can be adopted. The message says why, and begins with "The transaction". */
export class NotPaid extends Error {
  override readonly name = "NotPaid";
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
  methods: Methods,
): Promise<ChainPayment[]> {
  const readable = tokens.filter(
    ({ rpcUrl, transferMethod }) =>
      rpcUrl !== undefined && methods.find(transferMethod)?.paymentsIn !== undefined,
  );
  const networks = [...new Set(readable.map(({ network }) => network))];
  if (networks.length === 0)
    throw new NotPaid("The transaction cannot be read: no accepted token has an rpc_url.");
  for (const network of networks) {
    const own = readable.filter((token) => token.network === network);
    const mined = await findMined(network, own[0]?.rpcUrl ?? "", hash);
    if (mined !== undefined) return paymentsOf(mined, own, methods);
  }
  throw new NotPaid(`The transaction is on none of these chains: ${networks.join(", ")}.`);
}

async function findMined(
  network: string,
  rpcUrl: string,
  hash: string,
): Promise<MinedTransaction | undefined> {
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

async function paymentsOf(
  mined: MinedTransaction,
  tokens: readonly AcceptedToken[],
  methods: Methods,
): Promise<ChainPayment[]> {
  const found: ChainPayment[] = [];
  for (const token of tokens) {
    const paid = (await methods.get(token.transferMethod).paymentsIn?.(mined, token)) ?? [];
    for (const payment of paid) if (!found.some((one) => isSame(one, payment))) found.push(payment);
  }
  if (found.length === 0) {
    const [reason] = [...methods].flatMap((method) => method.whyNotExact?.(mined.logs) ?? []);
    throw new NotPaid(reason ?? "The transaction made no exact payment of an accepted token to its pay_to.");
  }
  const needed = Math.max(...found.map(({ token }) => token.confirmations));
  if (mined.confirmations < BigInt(needed))
    throw new NotPaid(
      `The transaction has ${mined.confirmations} of ${needed} confirmations: try again later.`,
    );
  return found;
}

function isSame({ key }: ChainPayment, { key: other }: ChainPayment): boolean {
  return key.asset === other.asset && key.payer === other.payer && key.nonce === other.nonce;
}
