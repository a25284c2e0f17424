import { LRUCache } from "lru-cache";
import { type Log, type PublicClient, parseAbi, parseEventLogs } from "viem";
import { isRefusal } from "../../chain/chain-client.ts";
import type { PaymentIntent, PaymentKey } from "../../core/payment.ts";

/** Events of EIP-3009, and ERC-20's Transfer. */
export const TOKEN_EVENTS = parseAbi([
  "event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)",
  "event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce)",
  "event Transfer(address indexed from, address indexed to, uint256 value)",
]);
const NONCE_EVENTS = [TOKEN_EVENTS[0], TOKEN_EVENTS[1]] as const;

/** Blocks in one query for logs. RPC providers refuse long ranges, some of them over ten blocks. */
const MAX_LOG_RANGE = 2_000n;
const MIN_LOG_RANGE = 10n;
/** Answers in a row after which a longer range is tried again: the refusal may have had another cause. */
const ANSWERS_TO_TRUST = 50;
/** Bound of one search; the next look at the same payment continues it. */
const MAX_LOG_QUERIES = 200;
/** Payments whose search into the past is remembered; a forgotten one starts again. */
const MAX_SEARCHES = 10_000;
/** Longest time between the signature and the first sight of a payment. Many clients sign from the beginning of time. */
const LOOK_BACK_SECS = 86_400n;

/** The event that used up the nonce of a payment. */
export interface NonceUse {
  readonly eventName: "AuthorizationUsed" | "AuthorizationCanceled";
  readonly blockNumber: bigint;
  readonly blockHash: `0x${string}`;
  readonly transactionHash: `0x${string}`;
}

/** The parts of a payment that a search needs. Without `fromBlock`, it starts at the head. */
type SearchedPayment = Pick<PaymentIntent, "key" | "fingerprint" | "payload" | "validBefore" | "fromBlock">;

/** The RPC refuses every query for logs, even over few blocks. */
export class LogsRefused extends Error {
  override readonly name = "LogsRefused";
}

/** Finds the event that used up the payment's nonce in some logs. */
export function findUse(logs: readonly Log[], { key }: Pick<PaymentIntent, "key">): NonceUse | undefined {
  const events = parseEventLogs({
    abi: TOKEN_EVENTS,
    logs: ownLogs(logs, key),
    eventName: ["AuthorizationUsed", "AuthorizationCanceled"],
  });
  for (const { args, eventName, blockNumber, blockHash, transactionHash } of events) {
    if (args.authorizer.toLowerCase() !== key.payer || args.nonce.toLowerCase() !== key.nonce) continue;
    if (blockNumber === null || blockHash === null || transactionHash === null) continue;
    return { eventName, blockNumber, blockHash, transactionHash };
  }
  return undefined;
}

/** Returns the logs that the payment's token wrote. */
export function ownLogs(logs: readonly Log[], { asset }: PaymentKey): Log[] {
  return logs.filter((log) => log.address.toLowerCase() === asset);
}

/** Search of one RPC for the use of a nonce. It learns how many blocks the RPC accepts in one query. */
export class NonceSearch {
  #range = MAX_LOG_RANGE;
  #answersInRow = 0;
  /** Blocks to continue unfinished searches from, by fingerprint. A finished search starts anew: its node may have lagged. */
  readonly #ahead = new LRUCache<string, bigint>({ max: MAX_SEARCHES });
  readonly #past = new LRUCache<string, bigint>({ max: MAX_SEARCHES });

  /**
   * Searches from the payment's start block to the head, and then back as far as the authorization can have been valid:
   * somebody may have used it before jobgate saw it. One call makes a bounded number of queries; the next one for the
   * same payment continues.
   * @param maxQueries bound of this call
   * @returns `unfinished` when blocks are left to search
   * @throws LogsRefused
   */
  async find(
    client: PublicClient,
    intent: SearchedPayment,
    head: bigint,
    maxQueries = MAX_LOG_QUERIES,
  ): Promise<NonceUse | "unfinished" | undefined> {
    let queries = 0;
    const { fingerprint } = intent;
    const start = intent.fromBlock === undefined ? undefined : BigInt(intent.fromBlock);
    for (let from = this.#ahead.get(fingerprint) ?? start ?? head + 1n; from <= head; queries++) {
      this.#ahead.set(fingerprint, from);
      if (queries >= maxQueries) return "unfinished";
      const to = smaller(from + this.#range - 1n, head);
      const use = await this.#query(client, intent, from, to);
      if (use !== undefined && use !== "range_too_long") return use;
      if (use === undefined) from = to + 1n;
    }
    this.#ahead.delete(fingerprint);

    const earliest = await earliestUse(client, intent, start);
    for (let to = this.#past.get(fingerprint) ?? (start ?? head + 1n) - 1n; to >= 0n; queries++) {
      this.#past.set(fingerprint, to);
      if (queries >= maxQueries) return "unfinished";
      const from = larger(to - this.#range + 1n, 0n);
      const use = await this.#query(client, intent, from, to);
      if (use !== undefined && use !== "range_too_long") return use;
      if (use === "range_too_long") continue;
      const { timestamp } = await client.getBlock({ blockNumber: from });
      to = timestamp < earliest ? -1n : from - 1n;
    }
    this.#past.delete(fingerprint);
    return undefined;
  }

  async #query(
    client: PublicClient,
    intent: SearchedPayment,
    from: bigint,
    to: bigint,
    isRepeated = false,
  ): Promise<NonceUse | "range_too_long" | undefined> {
    try {
      const use = findUse(await nonceLogs(client, intent, from, to), intent);
      if (++this.#answersInRow % ANSWERS_TO_TRUST === 0)
        this.#range = smaller(this.#range * 2n, MAX_LOG_RANGE);
      return use;
    } catch (error) {
      if (!isRefusal(error)) throw error;
      this.#answersInRow = 0;
      const asked = to - from + 1n;
      if (asked > MIN_LOG_RANGE) {
        this.#range = larger(asked / 4n, MIN_LOG_RANGE);
        return "range_too_long";
      }
      if (isRepeated) throw new LogsRefused("the RPC refuses to search logs", { cause: error });
      return this.#query(client, intent, from, to, true);
    }
  }
}

/** Returns the Unix seconds before which the authorization cannot have been used, or was hardly even signed. */
async function earliestUse(
  client: PublicClient,
  { payload, validBefore }: SearchedPayment,
  startBlock: bigint | undefined,
): Promise<bigint> {
  const firstSeen =
    startBlock === undefined
      ? BigInt(validBefore)
      : (await client.getBlock({ blockNumber: startBlock })).timestamp;
  return larger(validAfterOf(payload), firstSeen - LOOK_BACK_SECS);
}

function validAfterOf(payload: string): bigint {
  const { payload: signed } = JSON.parse(payload) as {
    payload?: { authorization?: { validAfter?: string } };
  };
  return BigInt(signed?.authorization?.validAfter ?? 0);
}

const smaller = (left: bigint, right: bigint): bigint => (left < right ? left : right);
const larger = (left: bigint, right: bigint): bigint => (left > right ? left : right);

async function nonceLogs(
  client: PublicClient,
  intent: SearchedPayment,
  fromBlock: bigint,
  toBlock: bigint,
): Promise<Log[]> {
  const { asset, payer, nonce } = intent.key as Record<"asset" | "payer" | "nonce", `0x${string}`>;
  const found = await Promise.all(
    NONCE_EVENTS.map((event) =>
      client.getLogs({ address: asset, event, args: { authorizer: payer, nonce }, fromBlock, toBlock }),
    ),
  );
  return found.flat();
}
