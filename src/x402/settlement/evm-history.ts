import { ChainClient, chainIdOf } from "../../chain/chain-client.ts";
import { asHex, asNumber, type Rpc } from "../../chain/rpc.ts";
import type { Methods } from "../methods/methods.ts";
import { readBlock, readHead } from "./block-view.ts";
import { type ChainHistory, NotPaid, type ReadableToken, type ReceivedTransfer } from "./chain-history.ts";
import { addressWord, asLogs, readTransfer, TRANSFER_TOPIC } from "./chain-logs.ts";
import type { ChainPayment, MinedTransaction } from "./chain-payment.ts";
import { LogSearch } from "./log-search.ts";

const TIMEOUT_MS = 10_000;

/** Reads payments from the logs of an EVM chain. */
export class EvmHistory implements ChainHistory {
  readonly #methods: Methods;

  constructor(methods: Methods) {
    this.#methods = methods;
  }

  async paymentsIn(
    hash: string,
    tokens: readonly [ReadableToken, ...ReadableToken[]],
  ): Promise<readonly ChainPayment[] | undefined> {
    const mined = await findMined(await connect(tokens[0]), hash);
    if (mined === undefined) return undefined;
    const found: ChainPayment[] = [];
    for (const token of tokens) {
      const paid = (await this.#methods.find(token.transferMethod)?.paymentsIn?.(mined, token)) ?? [];
      for (const payment of paid) if (!found.some((one) => isSame(one, payment))) found.push(payment);
    }
    if (found.length === 0) {
      const [reason] = [...this.#methods].flatMap((method) => method.whyNotExact?.(mined.logs) ?? []);
      if (reason !== undefined) throw new NotPaid(reason);
    }
    const needed = Math.max(0, ...found.map(({ token }) => token.confirmations));
    if (mined.confirmations < BigInt(needed))
      throw new NotPaid(
        `The transaction has ${mined.confirmations} of ${needed} confirmations: try again later.`,
      );
    return found;
  }

  async receivedSince(token: ReadableToken, since: number): Promise<readonly ReceivedTransfer[]> {
    const { asset, payTo, confirmations } = token;
    const rpc = await connect(token);
    const to = (await readHead(rpc)) - BigInt(confirmations) + 1n;
    const from = await firstBlockSince(rpc, since, to);
    const topics = [TRANSFER_TOPIC, null, `0x${addressWord(payTo.toLowerCase())}`];
    const found: ReceivedTransfer[] = [];
    for await (const logs of new LogSearch().readAll(rpc, [{ address: asset, topics }], { from, to })) {
      for (const log of logs) {
        const transfer = readTransfer(log);
        const { blockNumber, transactionHash } = log;
        if (transfer?.to !== payTo.toLowerCase() || blockNumber === null || transactionHash === null)
          continue;
        const { from: payer, value: amount } = transfer;
        const mined = { transaction: transactionHash.toLowerCase(), block: asNumber(blockNumber) };
        found.push({ token, from: payer, amount, ...mined });
      }
    }
    return found;
  }
}

function connect({ network, rpcUrl }: ReadableToken): Promise<Rpc> {
  return new ChainClient({ rpcUrl, chainId: chainIdOf(network), timeoutMs: TIMEOUT_MS }).connect();
}

async function findMined(rpc: Rpc, hash: string): Promise<MinedTransaction | undefined> {
  const receipt = (await rpc.call("eth_getTransactionReceipt", [hash])) as Record<string, unknown> | null;
  if (receipt === null) return undefined;
  if (receipt.status !== "0x1") throw new NotPaid("The transaction was reverted, and moved nothing.");
  const block = asNumber(asHex(receipt.blockNumber));
  const [head, canonical] = await Promise.all([readHead(rpc), readBlock(rpc, block)]);
  if (canonical.hash !== receipt.blockHash)
    throw new NotPaid("The transaction is in a block that was replaced: try again.");
  return { rpc, hash, logs: asLogs(receipt.logs), block, confirmations: head - block + 1n };
}

function isSame({ key }: ChainPayment, { key: other }: ChainPayment): boolean {
  return key.asset === other.asset && key.payer === other.payer && key.nonce === other.nonce;
}

/** Finds the first block at or after a time; the block after `last` if there is no such block. */
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
