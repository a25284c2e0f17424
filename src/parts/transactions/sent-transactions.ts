import type { Clock } from "../../core/clock.ts";
import { readSigned } from "./account.ts";
import type { Head, Receipt, SettlerChain } from "./chain.ts";
import type { TransactionEnd, TransactionRecord } from "./store/journal.ts";

/** A transaction that was signed. */
export type SignedRecord = TransactionRecord & Required<Pick<TransactionRecord, "signed">>;

/** A signed transaction and what the chain has shown of it. */
export interface Sent {
  readonly record: SignedRecord;
  /** Present while the chain shows it mined. */
  readonly receipt?: Receipt | undefined;
  /** Time and block at which it was signed, or first seen here. */
  readonly sinceMs: number;
  readonly sinceBlock: bigint;
  /** Time of the last broadcast; undefined if this process has not broadcast it yet. */
  readonly broadcastAtMs?: number | undefined;
  /** Time at which its nonce was first seen used without a receipt. */
  readonly missingSinceMs?: number | undefined;
}

/** Changes that a check of the chain found, for the sender to act on. */
export interface Findings {
  /** References of transactions that the chain now shows as mined. */
  readonly mined: readonly string[];
  /** Ends of transactions that lost their nonce to another program's transaction, to be recorded in the journal. */
  readonly ends: readonly TransactionEnd[];
  /** Transactions that are not mined, to be broadcast again or for the first time. */
  readonly unheard: readonly Sent[];
  /** Transactions that have long not been mined, to be replaced at a higher fee. */
  readonly stuck: readonly Sent[];
}

/** Blocks after a transaction's own block from which on the transaction is treated as final. */
const FINAL_BLOCKS = 12n;
/** Time after which a transaction is treated as final on a chain without new blocks. */
const FINAL_MS = 600_000;
/** Time between checks for final transactions, because recording them takes a commit, which payments wait for. */
const FINAL_LOOK_MS = 1_000;
/** Blocks without a transaction, or time, after which the transaction is treated as stuck. */
const STUCK_BLOCKS = 5n;
const STUCK_MS = 30_000;
/** Time after which bytes are broadcast again, because a node may have forgotten them. */
const REBROADCAST_MS = 10_000;
/** Time for which a nonce may be used without a receipt before a search for another sender's transaction. */
const MISSING_MS = 2_000;

/** Signed transactions of one network that are not final. Kept in memory while this process owns the network. */
export class SentTransactions {
  readonly #chain: SettlerChain;
  readonly #clock: Clock;
  readonly #byReference = new Map<string, Sent>();
  #finalLookAtMs: number | undefined;

  constructor(chain: SettlerChain, clock: Clock) {
    this.#chain = chain;
    this.#clock = clock;
  }

  /** Adds a transaction, or replaces its record after it was signed with other fees. */
  add(record: SignedRecord, head: Head): Sent {
    const sent = { record, sinceMs: this.#clock(), sinceBlock: head.number };
    this.#byReference.set(record.reference, sent);
    return sent;
  }

  get(reference: string): Sent | undefined {
    return this.#byReference.get(reference);
  }

  remove(reference: string): void {
    this.#byReference.delete(reference);
  }

  get size(): number {
    return this.#byReference.size;
  }

  noteBroadcast(reference: string): void {
    this.#update(reference, { broadcastAtMs: this.#clock() });
  }

  /** Transactions that are not mined, in the order of their nonces. */
  unmined(account?: string): Sent[] {
    return [...this.#byReference.values()]
      .filter(({ receipt, record }) => !receipt && (account === undefined || isAccount(record, account)))
      .sort((a, b) => a.record.signed.nonce - b.record.signed.nonce);
  }

  /** Queries the chain for the accounts' transaction counts, and for receipts where they have passed a nonce. */
  async look(head: Head): Promise<Findings> {
    const accounts = new Set([...this.#byReference.values()].map(({ record }) => record.signed.account));
    const found = await Promise.all([...accounts].map((account) => this.#lookAt(account, head)));
    return {
      mined: found.flatMap(({ mined }) => mined),
      ends: found.flatMap(({ ends }) => ends),
      unheard: found.flatMap(({ unheard }) => unheard),
      stuck: found.flatMap(({ stuck }) => stuck),
    };
  }

  async #lookAt(account: string, head: Head): Promise<Findings> {
    const count = await this.#chain.transactionCount(account);
    for (const sent of this.#byReference.values()) {
      // The block was reorganised, or this node lags. The bytes of the transaction are broadcast again below.
      if (isAccount(sent.record, account) && sent.receipt && sent.record.signed.nonce >= count)
        this.#update(sent.record.reference, { receipt: undefined, broadcastAtMs: undefined });
    }
    const unmined = this.unmined(account);
    const passed = unmined.filter(({ record }) => record.signed.nonce < count);
    const receipts = await Promise.all(
      passed.map(({ record }) => this.#chain.receiptOfAny(hashesOf(record))),
    );
    const mined = passed.flatMap(({ record }, i) => {
      const receipt = receipts[i];
      if (receipt === undefined) return [];
      this.#update(record.reference, { receipt, missingSinceMs: undefined });
      return [record.reference];
    });
    const foreign = await this.#usedByOthers(
      passed.filter((_, i) => receipts[i] === undefined),
      head,
    );
    const waiting = unmined.filter(({ record }) => record.signed.nonce >= count);
    return {
      mined,
      ends: foreign,
      unheard: waiting.filter(({ broadcastAtMs }) => this.#isPast(broadcastAtMs, REBROADCAST_MS)),
      stuck: waiting.filter((sent, i) => this.#isStuck(sent, i === 0, head)),
    };
  }

  /**
   * Takes transactions back whose nonce another program used with the same key. A missing receipt alone proves nothing,
   * because the node may lag. So a block that is deep enough has to show the other transaction.
   */
  async #usedByOthers(missing: readonly Sent[], head: Head): Promise<TransactionEnd[]> {
    const ends: TransactionEnd[] = [];
    for (const { record, missingSinceMs } of missing) {
      if (missingSinceMs === undefined) {
        this.#update(record.reference, { missingSinceMs: this.#clock() });
      } else if (this.#isPast(missingSinceMs, MISSING_MS)) {
        this.#update(record.reference, { missingSinceMs: this.#clock() });
        const { account, nonce } = record.signed;
        const hash = await this.#chain.transactionWithNonce(account, nonce, head.number - FINAL_BLOCKS);
        if (hash !== undefined && !hashesOf(record).includes(hash.toLowerCase()))
          ends.push({ reference: record.reference, state: "queued" });
      }
    }
    return ends;
  }

  /** Ends of transactions whose block is deep enough and still part of the chain. Checks once a second. */
  async final(head: Head): Promise<TransactionEnd[]> {
    if (!this.#isPast(this.#finalLookAtMs, FINAL_LOOK_MS)) return [];
    this.#finalLookAtMs = this.#clock();
    const deep = [...this.#byReference.values()].filter(
      ({ receipt, sinceMs }) =>
        receipt !== undefined &&
        (head.number >= receipt.blockNumber + FINAL_BLOCKS || this.#isPast(sinceMs, FINAL_MS)),
    );
    const hashes = new Map<bigint, Promise<string>>();
    const ends: TransactionEnd[] = [];
    for (const { record, receipt } of deep) {
      if (receipt === undefined) continue;
      const { blockNumber, blockHash, status, hash, fee } = receipt;
      if (!hashes.has(blockNumber)) hashes.set(blockNumber, this.#chain.blockHash(blockNumber));
      if ((await hashes.get(blockNumber)) === blockHash) {
        const state = status === "success" ? "succeeded" : "reverted";
        ends.push({
          ...{ reference: record.reference, state, hash, blockNumber: blockNumber.toString() },
          ...(fee === undefined ? {} : { fee: fee.toString() }),
        });
      } else this.#update(record.reference, { receipt: undefined });
    }
    return ends;
  }

  /**
   * A transaction whose fee is below the base fee cannot be mined, so it is replaced after one block. Another transaction is
   * replaced only if no transaction with a lower nonce waits, and after a longer time.
   */
  #isStuck({ record, sinceMs, sinceBlock }: Sent, isFirst: boolean, head: Head): boolean {
    if (head.number > sinceBlock && readSigned(record.signed.raw).fees.maxFeePerGas < head.baseFeePerGas)
      return true;
    return isFirst && (head.number >= sinceBlock + STUCK_BLOCKS || this.#isPast(sinceMs, STUCK_MS));
  }

  #isPast(sinceMs: number | undefined, durationMs: number): boolean {
    return sinceMs === undefined || this.#clock() - sinceMs >= durationMs;
  }

  #update(reference: string, change: Partial<Sent>): void {
    const sent = this.#byReference.get(reference);
    if (sent !== undefined) this.#byReference.set(reference, { ...sent, ...change });
  }
}

/** All hashes under which a transaction may be mined, newest first. */
export function hashesOf({ signed }: SignedRecord): string[] {
  return [signed.hash, ...signed.earlierHashes.toReversed()];
}

function isAccount({ signed }: SignedRecord, account: string): boolean {
  return signed.account.toLowerCase() === account.toLowerCase();
}
