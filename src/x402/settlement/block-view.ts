import { asHex, asNumber, type Rpc, readWords, toHex, wordsCode } from "../../chain/rpc.ts";

import type { Authorization } from "./authorization.ts";

/** Fields of a block that a decision uses. */
export interface Block {
  readonly number: bigint;
  readonly hash: string;
  readonly parentHash: string;
  /** Unix seconds. */
  readonly timestamp: bigint;
}

/** State and time that one execution on one node sees. */
interface View {
  /** Unix seconds of the block that the state belongs to, as the contract code in that block sees it. */
  readonly timestamp: bigint;
  /** Undefined if the contract that keeps the nonce is missing, or does not answer. */
  readonly isUsed: boolean | undefined;
}

/** The RPC does not read state by the hash of a block (EIP-1898), or does not have the state of that block. */
export class NoStateByHash extends Error {
  override readonly name = "NoStateByHash";
}

/** The contract that keeps a nonce does not return the nonce's state, because it is missing or is another contract. */
export class NoNonceState extends Error {
  override readonly name = "NoNonceState";
}

/** Returns the number of the newest block. */
export async function readHead(rpc: Rpc): Promise<bigint> {
  return asNumber(await rpc.call("eth_blockNumber", []));
}

/** @throws Error when the RPC does not have the block */
export async function readBlock(rpc: Rpc, which: bigint | "latest"): Promise<Block> {
  const named = which === "latest" ? which : toHex(which);
  const block = await rpc.call("eth_getBlockByNumber", [named, false]);
  if (typeof block !== "object" || block === null) throw new Error("the RPC does not have the block");
  const { number, hash, parentHash, timestamp } = block as Record<string, unknown>;
  return {
    number: asNumber(number),
    hash: asHex(hash),
    parentHash: asHex(parentHash),
    timestamp: asNumber(timestamp),
  };
}

/**
 * Reads whether a nonce is used, which is also true after a cancellation, or if it was used for something else.
 * @throws NoNonceState
 */
export async function isNonceUsed(
  rpc: Rpc,
  authorization: Authorization,
  block: bigint | "latest" = "latest",
): Promise<boolean> {
  const { nonceCall } = authorization;
  const word = await rpc.callForWord(nonceCall, block);
  const isUsed = word === undefined ? undefined : authorization.isUsed(word);
  if (isUsed === undefined)
    throw new NoNonceState(`the contract ${nonceCall.to} does not tell whether the nonce is used`);
  return isUsed;
}

/**
 * Reads whether a nonce is used, in the state of one block.
 *
 * An RPC address can have several nodes behind it, and a node that lags may answer with its own state, whatever block the
 * call names. So the call names the block by its hash, and the executed code also reads the timestamp of the block in which
 * it runs, because the state of another block has another timestamp.
 * @throws NoStateByHash
 */
export async function readView(rpc: Rpc, authorization: Authorization, blockHash: string): Promise<View> {
  let answer: string;
  try {
    answer = asHex(
      await rpc.call("eth_call", [{ data: wordsCode([authorization.nonceCall]) }, { blockHash }]),
    );
  } catch (cause) {
    throw new NoStateByHash("the RPC does not answer for the state of a block by its hash", { cause });
  }
  const words = readWords(answer, 1);
  if (words === undefined) throw new NoStateByHash("the RPC does not run code against the state of a block");
  const [used] = words.answers;
  return { timestamp: words.timestamp, isUsed: used === undefined ? undefined : authorization.isUsed(used) };
}

/** Returns a block and whether the nonce is used in its state. @throws NoStateByHash */
export async function readViewOf(
  rpc: Rpc,
  authorization: Authorization,
  number: bigint,
): Promise<Block & View> {
  const block = await readBlock(rpc, number);
  const view = await readView(rpc, authorization, block.hash);
  if (view.timestamp !== block.timestamp) throw new Error("the RPC answered with the state of another block");
  return { ...block, ...view };
}
