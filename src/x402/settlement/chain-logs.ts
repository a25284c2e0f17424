import type { Rpc } from "../../chain/rpc.ts";
import type { PaymentIntent } from "../../core/payment.ts";

/* Logs as a chain's RPC shows them. They are parsed by hand, because viem parses ABIs and builds an error with a stack
   trace for each log of another event, which costs 0.3 ms of CPU for each payment. A test compares both on random logs. */

/** A log of a transaction, as JSON-RPC returns it. */
export interface RawLog {
  readonly address: string;
  readonly topics: readonly string[];
  readonly data: string;
}

/** A log of a mined transaction. The log of a pending transaction has no block. */
export interface MinedLog extends RawLog {
  readonly blockNumber: string | null;
  readonly blockHash: string | null;
  readonly transactionHash: string | null;
}

/** Event of ERC-20. Addresses are lower case. */
export interface Transfer {
  readonly name: "Transfer";
  readonly from: string;
  readonly to: string;
  readonly value: bigint;
}

export const TRANSFER_TOPIC = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

const WORD = /^[0-9a-f]{64}$/;
const WORD_LENGTH = 64;
/** Position of an address in its word: after 12 bytes. */
const ADDRESS_AT = 24;

/** Reads a word of a topic, or the word of data at an index. Lower case, without `0x`. @returns undefined for other text */
export function readWord(hex: string | undefined, index = 0): string | undefined {
  const at = 2 + index * WORD_LENGTH;
  const word = hex?.startsWith("0x") ? hex.slice(at, at + WORD_LENGTH).toLowerCase() : "";
  return WORD.test(word) ? word : undefined;
}

/** Returns the address in a word. */
export function wordAddress(word: string): string {
  return `0x${word.slice(ADDRESS_AT)}`;
}

/** Returns an address as a word of call data or of a topic, without `0x`. */
export function addressWord(address: string): string {
  return address.slice(2).padStart(WORD_LENGTH, "0");
}

/** Returns a number as a word, without `0x`. */
export function numberWord(number: bigint): string {
  return number.toString(16).padStart(WORD_LENGTH, "0");
}

/** Reads the transfer of a token's log. @returns undefined for another event, or an event with other fields */
export function readTransfer({ topics, data }: RawLog): Transfer | undefined {
  if (topics[0] !== TRANSFER_TOPIC) return undefined;
  const [from, to, value] = [readWord(topics[1]), readWord(topics[2]), readWord(data)];
  if (from === undefined || to === undefined || value === undefined) return undefined;
  return { name: "Transfer", from: wordAddress(from), to: wordAddress(to), value: BigInt(`0x${value}`) };
}

/** Reports whether a transfer of the payment's token has its exact amount, payer and recipient. */
export function isOffered(
  { from, to, value }: Transfer,
  { key, payTo, amount }: Pick<PaymentIntent, "key" | "payTo" | "amount">,
): boolean {
  return from === key.payer && to === payTo && value === BigInt(amount);
}

/**
 * Returns the logs of a successful transaction; undefined when the chain does not have the transaction, or the
 * transaction was reverted.
 */
export async function successfulLogs(
  rpc: Rpc,
  transaction: string,
): Promise<readonly MinedLog[] | undefined> {
  const receipt = await rpc.call("eth_getTransactionReceipt", [transaction]);
  if (receipt === null) return undefined;
  const { status, logs } = receipt as Record<string, unknown>;
  return status === "0x1" ? asLogs(logs) : undefined;
}

/** Returns logs that an RPC answered with. @throws Error when they are not logs */
export function asLogs(value: unknown): readonly MinedLog[] {
  if (Array.isArray(value) && value.every(isLog)) return value;
  throw new Error("the RPC answered with something other than logs");
}

function isLog(value: unknown): value is MinedLog {
  if (!isRawLog(value)) return false;
  const { blockNumber, blockHash, transactionHash } = value as MinedLog;
  return [blockNumber, blockHash, transactionHash].every(
    (field) => field === null || typeof field === "string",
  );
}

export function isRawLog(value: unknown): value is RawLog {
  if (typeof value !== "object" || value === null) return false;
  const { address, topics, data } = value as Record<string, unknown>;
  return (
    typeof address === "string" &&
    typeof data === "string" &&
    Array.isArray(topics) &&
    topics.every((topic) => typeof topic === "string")
  );
}
