import { asHex, asNumber, type Rpc, RpcError, toHex } from "../../chain/rpc.ts";
import type { Authorization } from "./authorization.ts";

/** Characters of 32 bytes, `0x` included. */
const WORD_LENGTH = 66;

/** A block, as far as a decision needs it. */
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
  /** Undefined when the contract that keeps the nonce is missing there, or does not answer. */
  readonly isUsed: boolean | undefined;
}

/** The RPC does not read state by the hash of a block (EIP-1898), or does not have the state of that block. */
export class NoStateByHash extends Error {
  override readonly name = "NoStateByHash";
}

/** The contract that keeps a nonce does not answer whether it is used: it is missing, or another one. */
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
 * Asks whether a nonce is used, which is also true after a cancellation, or when it was spent on something else.
 * @throws NoNonceState
 */
export async function isNonceUsed(
  rpc: Rpc,
  authorization: Authorization,
  block: bigint | "latest" = "latest",
): Promise<boolean> {
  const { nonceCall } = authorization;
  const word = await callForWord(rpc, nonceCall, block);
  const isUsed = word === undefined ? undefined : authorization.isUsed(word);
  if (isUsed === undefined)
    throw new NoNonceState(`the contract ${nonceCall.to} does not tell whether the nonce is used`);
  return isUsed;
}

/** Calls a contract. @returns its answer; undefined when that is not 32 bytes, or the call reverts */
export async function callForWord(
  rpc: Rpc,
  { to, data }: Authorization["nonceCall"],
  block: bigint | "latest" = "latest",
): Promise<bigint | undefined> {
  try {
    const answer = await rpc.callContract(to, data, block);
    return answer.length === WORD_LENGTH ? BigInt(answer) : undefined;
  } catch (error) {
    if (error instanceof RpcError && error.isRevert) return undefined;
    throw error;
  }
}

/**
 * Asks whether a nonce is used, in the state that belongs to one block.
 *
 * An RPC address can have several nodes behind it, and a node that lags may answer with the state that it has, whatever
 * block the question names. So the question names the block by its hash, and the code that asks for the nonce also reads
 * the clock of the block that it runs in: a state of another block shows another time.
 * @throws NoStateByHash
 */
export async function readView(rpc: Rpc, authorization: Authorization, blockHash: string): Promise<View> {
  let digits: string;
  try {
    digits = asHex(await rpc.call("eth_call", [{ data: viewCode(authorization) }, { blockHash }])).slice(2);
  } catch (cause) {
    throw new NoStateByHash("the RPC does not answer for the state of a block by its hash", { cause });
  }
  if (digits.length !== 64 && digits.length !== 128)
    throw new NoStateByHash("the RPC does not run code against the state of a block");
  const answer = digits.slice(64);
  return {
    timestamp: BigInt(`0x${digits.slice(0, 64)}`),
    isUsed: answer === "" ? undefined : authorization.isUsed(BigInt(`0x${answer}`)),
  };
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

/**
 * Creation code of a contract that is never created. It asks for the nonce and returns the block's timestamp and, if the
 * answer has 32 bytes, the answer.
 */
function viewCode({ nonceCall }: Authorization): string {
  return [
    "0x60446038600039", // CODECOPY: memory[0..68) = the question, which follows these 56 bytes
    "6020608060446000", // output: memory[128..160); input: memory[0..68)
    `73${nonceCall.to.slice(2)}`,
    "5afa", // STATICCALL with all gas
    "3d6020141660051b", // 32 if it succeeded with 32 bytes, else 0
    "602001", // ADD 32: the length of the answer
    "42606052", // memory[96..128) = TIMESTAMP
    "6060f3", // RETURN memory[96..)
    nonceCall.data.slice(2),
  ].join("");
}
