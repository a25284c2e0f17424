import { isRefusal, type Rpc, toHex } from "../../chain/rpc.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import { type Authorization, type NonceUse, Unexplained } from "./authorization.ts";
import { readBlock } from "./block-view.ts";
import { asLogs, type MinedLog } from "./chain-logs.ts";

/** Blocks in one query for logs. RPC providers refuse long ranges, some of them over ten blocks. */
const MAX_LOG_RANGE = 2_000n;
const MIN_LOG_RANGE = 10n;
/** Number of answers in a row after which a longer range is tried again, because the refusal may have had another cause. */
const ANSWERS_TO_TRUST = 50;
/** Bound on one search. The next search for the same payment continues it. */
const MAX_LOG_QUERIES = 200;
/** Number of payments whose search into the past is remembered. A forgotten search starts again. */
const MAX_SEARCHES = 10_000;
/**
 * Longest time between the signature of a payment and its arrival at jobgate. It is needed because many clients sign
 * authorizations that are valid since the beginning of time.
 */
const LOOK_BACK_SECS = 86_400n;

/** Search of one RPC's logs. It learns how many blocks the RPC accepts in one query. */
export class LogSearch {
  #range = MAX_LOG_RANGE;
  #answersInRow = 0;
  /**
   * Blocks to continue unfinished searches from, by fingerprint. A finished search starts over, because the node that
   * answered it may lag.
   */
  readonly #ahead = boundedCache<string, bigint>(MAX_SEARCHES);
  readonly #past = boundedCache<string, bigint>(MAX_SEARCHES);

  /**
   * Searches from the payment's start block to the head, and then back as far as the authorization can have been valid,
   * because another seller may have used it before jobgate saw it. One call makes a bounded number of queries. The next call
   * for the same payment continues.
   * @param maxQueries bound of this call
   * @returns `unfinished` when blocks are left to search
   * @throws Unexplained when the RPC refuses every query, even over few blocks
   */
  async find(
    rpc: Rpc,
    authorization: Authorization,
    head: bigint,
    maxQueries = MAX_LOG_QUERIES,
  ): Promise<NonceUse | "unfinished" | undefined> {
    let queries = 0;
    const { fingerprint, fromBlock } = authorization.payment;
    const start = fromBlock === undefined ? undefined : BigInt(fromBlock);
    for (let from = this.#ahead.get(fingerprint) ?? start ?? head + 1n; from <= head; queries++) {
      this.#ahead.set(fingerprint, from);
      if (queries >= maxQueries) return "unfinished";
      const to = smaller(from + this.#range - 1n, head);
      const logs = await this.#query(rpc, authorization.logFilters, from, to);
      if (logs === "range_too_long") continue;
      const use = await authorization.useAmong(rpc, logs);
      if (use !== undefined) return use;
      from = to + 1n;
    }
    this.#ahead.delete(fingerprint);

    const earliest = await earliestUse(rpc, authorization, start);
    for (let to = this.#past.get(fingerprint) ?? (start ?? head + 1n) - 1n; to >= 0n; queries++) {
      this.#past.set(fingerprint, to);
      if (queries >= maxQueries) return "unfinished";
      const from = larger(to - this.#range + 1n, 0n);
      const logs = await this.#query(rpc, authorization.logFilters, from, to);
      if (logs === "range_too_long") continue;
      const use = await authorization.useAmong(rpc, logs);
      if (use !== undefined) return use;
      const { timestamp } = await readBlock(rpc, from);
      to = timestamp < earliest ? -1n : from - 1n;
    }
    this.#past.delete(fingerprint);
    return undefined;
  }

  /** Reads the logs that any of the filters selects in some blocks, as many blocks at a time as a query can have, oldest first. */
  async *readAll(
    rpc: Rpc,
    filters: Authorization["logFilters"],
    blocks: { readonly from: bigint; readonly to: bigint },
  ): AsyncGenerator<readonly MinedLog[]> {
    for (let { from } = blocks; from <= blocks.to; ) {
      const to = smaller(from + this.#range - 1n, blocks.to);
      const logs = await this.#query(rpc, filters, from, to);
      if (logs === "range_too_long") continue;
      yield logs;
      from = to + 1n;
    }
  }

  async #query(
    rpc: Rpc,
    filters: Authorization["logFilters"],
    from: bigint,
    to: bigint,
    isRepeated = false,
  ): Promise<readonly MinedLog[] | "range_too_long"> {
    const range = { fromBlock: toHex(from), toBlock: toHex(to) };
    try {
      const found = await Promise.all(
        filters.map((filter) => rpc.call("eth_getLogs", [{ ...filter, ...range }])),
      );
      const logs = found.flatMap(asLogs);
      if (++this.#answersInRow % ANSWERS_TO_TRUST === 0)
        this.#range = smaller(this.#range * 2n, MAX_LOG_RANGE);
      return logs;
    } catch (error) {
      if (!isRefusal(error)) throw error;
      this.#answersInRow = 0;
      const asked = to - from + 1n;
      if (asked > MIN_LOG_RANGE) {
        this.#range = larger(asked / 4n, MIN_LOG_RANGE);
        return "range_too_long";
      }
      if (isRepeated) throw new Unexplained("the RPC refuses to search logs", { cause: error });
      return this.#query(rpc, filters, from, to, true);
    }
  }
}

/** Returns the Unix seconds before which the authorization cannot have been used, or was almost certainly not signed. */
async function earliestUse(
  rpc: Rpc,
  { validAfter, endsAt }: Authorization,
  startBlock: bigint | undefined,
): Promise<bigint> {
  const firstSeen = startBlock === undefined ? endsAt : (await readBlock(rpc, startBlock)).timestamp;
  return larger(validAfter, firstSeen - LOOK_BACK_SECS);
}

const smaller = (left: bigint, right: bigint): bigint => (left < right ? left : right);
const larger = (left: bigint, right: bigint): bigint => (left > right ? left : right);
