import { type Rpc, RpcError } from "../../chain/rpc.ts";
import { messageHashOf, parseTransaction } from "./transaction.ts";

/**
 * Commitment of the blocks that a node reads. A fork never replaces a `finalized` block, and almost never a `confirmed` one.
 */
export type Commitment = "confirmed" | "finalized";

/** A transaction that landed in a block. */
export interface LandedTransaction {
  readonly signature: string;
  readonly slot: number;
  readonly hasFailed: boolean;
  readonly messageHash: string;
  /** The transaction as the network carries it. */
  readonly bytes: Uint8Array;
  /**
   * Returns the token units that an account received; negative if it paid.
   * @throws Error if {@link parseTransaction} cannot parse the transaction
   */
  received(account: string): bigint;
}

/**
 * Place of the units in the data of a token account, and place of the account's state. The state is 1 unless the
 * account is frozen.
 */
const UNITS_AT = 64;
export const ACCOUNT_STATE = 108;
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

/** Place of the decimals in the data of a mint. */
export const MINT_DECIMALS = 44;

/** Reads an account: the program that owns it, and its data. @returns undefined if there is no such account */
export async function readAccount(
  rpc: Rpc,
  address: string,
): Promise<{ readonly owner: string; readonly data: Buffer } | undefined> {
  const options = { encoding: "base64", commitment: "confirmed" };
  const { value } = asObject(await rpc.call("getAccountInfo", [address, options]));
  if (value === null) return undefined;
  const { owner, data } = asObject(value);
  return { owner: String(owner), data: Buffer.from((data as readonly string[])[0] ?? "", "base64") };
}

/**
 * Queries whether a block after the last finalized block can still accept a blockhash.
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
    bytes,
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
 * @returns "unfinished" when the account had too many transactions since, or when one node lists a transaction that another node
 * does not have
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
  let pages = 0;
  for await (const listed of listPages(rpc, account, { commitment, atSlot })) {
    for (const { signature, memo: text } of listed) {
      if (!text?.includes(memo)) continue;
      // Nodes can take turns behind one address, and the next node may be behind the node that listed the transaction.
      const landed =
        (await readLanded(rpc, signature, commitment)) ?? (await readLanded(rpc, signature, commitment));
      if (landed === undefined) return "unfinished";
      if (landed.messageHash === messageHash) return landed;
    }
    if (listed.length < PAGE_LENGTH || (listed.at(-1)?.slot ?? 0) < since) return undefined;
    if (++pages === maxPages) return "unfinished";
  }
  return undefined;
}

/** Lists the transactions that name an account in pages, from the newest back. */
export async function* listPages(
  rpc: Rpc,
  account: string,
  { commitment, atSlot }: { readonly commitment: Commitment; readonly atSlot?: number | undefined },
): AsyncGenerator<readonly ListedSignature[]> {
  let before: string | undefined;
  do {
    const options = { commitment, limit: PAGE_LENGTH, before, minContextSlot: atSlot };
    const listed = await callUpToDate(rpc, "getSignaturesForAddress", [account, options]);
    const page = listed as readonly ListedSignature[];
    yield page;
    before = page.length < PAGE_LENGTH ? undefined : page.at(-1)?.signature;
  } while (before !== undefined);
}

/** Error code of a node that has not reached `minContextSlot`. */
const IS_BEHIND = -32_016;
/** Largest number of calls until a node that has reached the slot answers. */
const MAX_TURNS = 4;

/**
 * Calls a method with a `minContextSlot`. Repeats the call at once while the answering node is behind, because another node
 * may answer next.
 */
async function callUpToDate(rpc: Rpc, method: string, params: readonly unknown[]): Promise<unknown> {
  for (let turn = 1; ; turn++)
    try {
      return await rpc.call(method, params);
    } catch (error) {
      if (!(error instanceof RpcError) || error.code !== IS_BEHIND || turn === MAX_TURNS) throw error;
    }
}

export interface ListedSignature {
  readonly signature: string;
  readonly slot: number;
  readonly err: unknown;
  /** `[length] text`, several joined. */
  readonly memo: string | null;
  /** Unix seconds. */
  readonly blockTime?: number | null;
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

/** Reads the token units of an account. @returns undefined if there is no such account */
export async function readBalance(rpc: Rpc, account: string): Promise<bigint | undefined> {
  return (await readAccount(rpc, account))?.data.readBigUInt64LE(UNITS_AT);
}

/** The newest blockhash that a node knows. */
interface LatestBlockhash {
  /** Time at which the node was queried, or an earlier time if the node lags behind the cluster; Unix milliseconds. */
  readonly readAt: number;
  readonly fields: BlockhashFields;
}

/** A blockhash in the `extra` of an offer. */
interface BlockhashFields {
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

/**
 * Largest age of the newest block at which its node is not treated as lagging, because block times are inaccurate by
 * some seconds.
 */
const FRESH_BLOCK_MS = 5_000;
/**
 * Longest time by which a lag shortens the life of a blockhash. It is bounded, because a fast wall clock looks like a
 * lag, and must not stop all sales.
 */
const MAX_LAG_MS = 30_000;

async function readLatestBlockhash(rpc: Rpc): Promise<LatestBlockhash> {
  const askedAt = Date.now();
  const answer = asObject(await rpc.call("getLatestBlockhash", [{ commitment: "confirmed" }]));
  const { blockhash, lastValidBlockHeight } = asObject(answer.value);
  // A node may have no time of a block.
  const secs = await rpc.call("getBlockTime", [asObject(answer.context).slot]).catch(() => null);
  const lagMs = typeof secs === "number" ? askedAt - secs * 1_000 - FRESH_BLOCK_MS : 0;
  return {
    readAt: askedAt - Math.min(Math.max(0, lagMs), MAX_LAG_MS),
    fields: { recentBlockhash: String(blockhash), lastValidBlockHeight: String(lastValidBlockHeight) },
  };
}
