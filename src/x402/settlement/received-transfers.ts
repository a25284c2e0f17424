import { ChainClient, chainIdOf } from "../../chain/chain-client.ts";
import { asNumber, type Rpc } from "../../chain/rpc.ts";
import type { AcceptedToken } from "../../config/config.ts";
import { readBlock, readHead } from "./block-view.ts";
import { addressWord, readTransfer, TRANSFER_TOPIC } from "./chain-logs.ts";
import { LogSearch } from "./log-search.ts";

const TIMEOUT_MS = 10_000;

/** Transfer to a token's `pay_to`. Addresses and hashes are lower case. */
export interface ReceivedTransfer {
  readonly token: AcceptedToken;
  readonly from: string;
  readonly amount: bigint;
  readonly transaction: string;
  readonly block: bigint;
}

/**
 * Reads the confirmed transfers to a token's `pay_to`, oldest first.
 * @param token has an `rpc_url`
 * @param since Unix milliseconds
 * @throws Error when the chain cannot be asked, without the URL
 */
export async function readReceivedTransfers(
  token: AcceptedToken & { readonly rpcUrl: string },
  since: number,
): Promise<ReceivedTransfer[]> {
  const { rpcUrl, network, asset, payTo, confirmations } = token;
  const client = new ChainClient({ rpcUrl, chainId: chainIdOf(network), timeoutMs: TIMEOUT_MS });
  const rpc = await client.connect();
  const to = (await readHead(rpc)) - BigInt(confirmations) + 1n;
  const from = await firstBlockSince(rpc, since, to);
  const topics = [TRANSFER_TOPIC, null, `0x${addressWord(payTo.toLowerCase())}`];
  const found: ReceivedTransfer[] = [];
  for await (const logs of new LogSearch().readAll(rpc, [{ address: asset, topics }], { from, to })) {
    for (const log of logs) {
      const transfer = readTransfer(log);
      const { blockNumber, transactionHash } = log;
      if (transfer?.to !== payTo.toLowerCase() || blockNumber === null || transactionHash === null) continue;
      const { from: payer, value: amount } = transfer;
      const mined = { transaction: transactionHash.toLowerCase(), block: asNumber(blockNumber) };
      found.push({ token, from: payer, amount, ...mined });
    }
  }
  return found;
}

/** Finds the first block of a time or later; the one after `last` if there is none. */
async function firstBlockSince(rpc: Rpc, since: number, last: bigint): Promise<bigint> {
  let [low, high] = [0n, last + 1n];
  while (low < high) {
    const middle = (low + high) / 2n;
    const { timestamp } = await readBlock(rpc, middle);
    if (Number(timestamp) * 1_000 < since) low = middle + 1n;
    else high = middle;
  }
  return low;
}
