import type { Clock } from "../../core/clock.ts";
import type { Receipt, SettlerChain } from "./chain.ts";
import type { Changes } from "./changes.ts";
import type { Sender } from "./sender.ts";
import { hashesOf } from "./sent-transactions.ts";
import type { NewTransaction, TransactionJournal, TransactionRecord } from "./store/journal.ts";

interface Parts {
  readonly network: string;
  readonly journal: TransactionJournal;
  readonly chain: SettlerChain;
  readonly sender: Sender;
  readonly changes: Changes;
  readonly clock: Clock;
}

/** The node refused to run the transaction, so it was never signed. */
export class TransactionRefused extends Error {
  override readonly name = "TransactionRefused";
}

/** The time to wait for a transaction is over. It may still be mined. */
class TransactionPending extends Error {
  override readonly name = "TransactionPending";
}

/** Time between checks while this process sends, because it learns of changes at once. */
const OWN_POLL_MS = 1_000;
/** Time between checks while another process sends. */
const OTHER_POLL_MS = 200;

/** Transactions of one network, as a payment uses them: queue one, wait for its hash, wait for its receipt. */
export class Transactions {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Finds a transaction that was queued and not dropped. */
  async find(reference: string): Promise<TransactionRecord | undefined> {
    const { journal, network } = this.#parts;
    const [record] = await journal.findTransactions(network, [reference]);
    return record?.state === "dropped" ? undefined : record;
  }

  /** Queues a transaction; a transaction that was queued earlier under the same reference stays the only transaction. */
  async queue(transaction: Omit<NewTransaction, "network">): Promise<void> {
    const { journal, network, sender } = this.#parts;
    await journal.queueTransaction({ ...transaction, network });
    sender.poke();
  }

  /**
   * Waits until the transaction is signed, and returns its hash.
   * @param isNew true if the transaction was queued just now. A sender in this process announces its signature, so the journal
   *   is not read before
   * @throws TransactionRefused, TransactionPending
   */
  async signed(reference: string, deadlineMs: number, isNew = false): Promise<string> {
    const { sender } = this.#parts;
    let waitsForChange = isNew;
    return this.#until(reference, deadlineMs, async () => {
      const sent = sender.sent(reference);
      if (sent !== undefined) return sent.record.signed.hash;
      if (waitsForChange && sender.isOwner) {
        waitsForChange = false;
        return undefined;
      }
      return (await this.#read(reference)).signed?.hash;
    });
  }

  /**
   * Waits until the transaction is mined, under whichever hash.
   * @throws TransactionRefused, TransactionPending
   */
  async mined(reference: string, deadlineMs: number): Promise<Receipt> {
    const { sender, chain } = this.#parts;
    return this.#until(reference, deadlineMs, async () => {
      const sent = sender.sent(reference);
      if (sent !== undefined) return sent.receipt;
      const record = await this.#read(reference);
      if (record.mined !== undefined) return chain.receiptOfAny([record.mined.hash]);
      return record.signed && chain.receiptOfAny(hashesOf({ ...record, signed: record.signed }));
    });
  }

  async #read(reference: string): Promise<TransactionRecord> {
    const { journal, network } = this.#parts;
    const [record] = await journal.findTransactions(network, [reference]);
    if (record?.state === "dropped") throw new TransactionRefused(record.reason);
    if (record === undefined) throw new Error("the journal does not have the transaction");
    return record;
  }

  async #until<Found>(
    reference: string,
    deadlineMs: number,
    look: () => Promise<Found | undefined>,
  ): Promise<Found> {
    const { changes, sender, clock } = this.#parts;
    const found = await changes.until(reference, look, {
      pollMs: () => (sender.isOwner ? OWN_POLL_MS : OTHER_POLL_MS),
      leftMs: () => deadlineMs - clock(),
    });
    if (found === undefined) throw new TransactionPending("the transaction is not mined yet");
    return found;
  }
}
