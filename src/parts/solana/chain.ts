import type { Rpc } from "../../chain/rpc.ts";
import { messageHashOf, parseTransaction } from "./transaction.ts";

/** Blocks that a node answers from. A fork never replaces a `finalized` block, and almost never a `confirmed` one. */
export type Commitment = "confirmed" | "finalized";

/** A transaction that landed in a block. */
export interface LandedTransaction {
  readonly signature: string;
  readonly slot: number;
  readonly hasFailed: boolean;
  readonly messageHash: string;
  /**
   * Returns the token units that an account received; negative if it paid.
   * @throws Error if {@link parseTransaction} cannot parse the transaction
   */
  received(account: string): bigint;
}

/** Most signatures that a node lists at once. */
const PAGE_LENGTH = 1_000;

/** Reads the slot of the newest block at a commitment. */
export async function readSlot(rpc: Rpc, commitment: Commitment): Promise<number> {
  return asInteger(await rpc.call("getSlot", [{ commitment }]));
}

/** Reads the slot of the oldest block that the node still has. */
export async function readFirstSlot(rpc: Rpc): Promise<number> {
  return asInteger(await rpc.call("getFirstAvailableBlock", []));
}

/** Returns the CAIP-2 reference of the cluster: the first characters of the hash of its first block. */
export async function readReference(rpc: Rpc): Promise<string> {
  return String(await rpc.call("getGenesisHash", [])).slice(0, 32);
}

/**
 * Asks whether a block after the last finalized one can still take a blockhash.
 * @returns also the slot of that finalized block
 */
export async function readBlockhash(
  rpc: Rpc,
  blockhash: string,
): Promise<{ readonly isValid: boolean; readonly slot: number }> {
  const answer = asObject(await rpc.call("isBlockhashValid", [blockhash, { commitment: "finalized" }]));
  if (typeof answer.value !== "boolean")
    throw new Error("the RPC does not tell whether a blockhash is valid");
  return { isValid: answer.value, slot: asInteger(asObject(answer.context).slot) };
}

/** Reads a transaction by its signature. @returns undefined if the node knows no such transaction at the commitment */
export async function readLanded(
  rpc: Rpc,
  signature: string,
  commitment: Commitment,
): Promise<LandedTransaction | undefined> {
  const options = { encoding: "base64", commitment, maxSupportedTransactionVersion: 0 };
  const answer = await rpc.call("getTransaction", [signature, options]);
  if (answer === null) return undefined;
  const { slot, meta, transaction } = asObject(answer);
  const [base64] = transaction as [string];
  const bytes = Buffer.from(base64, "base64");
  const { err, preTokenBalances = [], postTokenBalances = [] } = asObject(meta);
  return {
    signature,
    slot: asInteger(slot),
    hasFailed: err !== null,
    messageHash: messageHashOf(bytes),
    received(account) {
      const index = parseTransaction(bytes).accounts.indexOf(account);
      return unitsOf(postTokenBalances, index) - unitsOf(preTokenBalances, index);
    },
  };
}

/**
 * Finds the transaction of a message. Searches the transactions that name an account, from the newest back.
 * @param of `memo`: the memo of the message; `since`: a slot before the message landed; `atSlot`: a slot that the node must have
 * reached
 * @returns "unfinished" when the account had too many transactions since
 */
export async function findLanded(
  rpc: Rpc,
  of: {
    readonly messageHash: string;
    readonly account: string;
    readonly memo: string;
    readonly since: number;
    readonly commitment: Commitment;
    readonly atSlot?: number;
    readonly maxPages: number;
  },
): Promise<LandedTransaction | "unfinished" | undefined> {
  const { messageHash, account, memo, since, commitment, atSlot, maxPages } = of;
  let before: string | undefined;
  for (let page = 0; page < maxPages; page++) {
    const options = { commitment, limit: PAGE_LENGTH, before, minContextSlot: atSlot };
    const listed = (await rpc.call("getSignaturesForAddress", [
      account,
      options,
    ])) as readonly ListedSignature[];
    for (const { signature, memo: text } of listed) {
      if (!text?.includes(memo)) continue;
      const landed = await readLanded(rpc, signature, commitment);
      if (landed?.messageHash === messageHash) return landed;
    }
    const oldest = listed.at(-1);
    if (oldest === undefined || listed.length < PAGE_LENGTH || oldest.slot < since) return undefined;
    before = oldest.signature;
  }
  return "unfinished";
}

interface ListedSignature {
  readonly signature: string;
  readonly slot: number;
  /** `[length] text`, several joined. */
  readonly memo: string | null;
}

function unitsOf(balances: unknown, index: number): bigint {
  const found = (balances as readonly TokenBalance[]).find(({ accountIndex }) => accountIndex === index);
  return BigInt(found?.uiTokenAmount.amount ?? 0);
}

interface TokenBalance {
  readonly accountIndex: number;
  readonly uiTokenAmount: { readonly amount: string };
}

export function asObject(value: unknown): Record<string, unknown> {
  if (typeof value !== "object" || value === null) throw new Error("the RPC answered with no object");
  return value as Record<string, unknown>;
}

function asInteger(value: unknown): number {
  if (Number.isSafeInteger(value)) return value as number;
  throw new Error("the RPC answered with something other than a number");
}

/** The newest blockhash, as the `extra` of an offer names it. */
interface LatestBlockhash {
  readonly recentBlockhash: string;
  readonly lastValidBlockHeight: string;
}

/** Time for which all offers name the same blockhash, so that many requests for offers cost one call of the RPC. */
const BLOCKHASH_FRESH_MS = 2_000;
const latest = new WeakMap<Rpc, { readonly at: number; readonly blockhash: Promise<LatestBlockhash> }>();

/** Returns the newest blockhash, at most {@link BLOCKHASH_FRESH_MS} old. */
export function latestBlockhash(rpc: Rpc): Promise<LatestBlockhash> {
  const last = latest.get(rpc);
  if (last !== undefined && performance.now() - last.at < BLOCKHASH_FRESH_MS) return last.blockhash;
  const blockhash = readLatestBlockhash(rpc);
  latest.set(rpc, { at: performance.now(), blockhash });
  return blockhash;
}

async function readLatestBlockhash(rpc: Rpc): Promise<LatestBlockhash> {
  const answer = asObject(await rpc.call("getLatestBlockhash", [{ commitment: "confirmed" }]));
  const { blockhash, lastValidBlockHeight } = asObject(answer.value);
  return { recentBlockhash: String(blockhash), lastValidBlockHeight: String(lastValidBlockHeight) };
}
