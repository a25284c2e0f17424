import type { Logger } from "pino";
import { BackgroundLoop } from "../../core/background-loop.ts";
import type { BackgroundService } from "../../core/background-service.ts";
import type { Clock } from "../../core/clock.ts";
import { faultPoint } from "../../core/fault-points.ts";
import { LeaseLock, type Locks } from "../../core/lease-lock.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import { BATCH, type BatchSigner, RETRY_MS, type Signature } from "./batch.ts";
import type { Head, SettlerChain } from "./chain.ts";
import type { Changes } from "./changes.ts";
import { hashesOf, type Sent, SentTransactions, type SignedRecord } from "./sent-transactions.ts";
import type { TransactionEnd, TransactionJournal, TransactionRecord } from "./store/journal.ts";

interface Parts {
  readonly network: string;
  /** Unique to this process's life. */
  readonly owner: string;
  readonly journal: TransactionJournal;
  readonly locks: Locks;
  /** True if other processes also queue transactions. */
  readonly isShared: boolean;
  readonly chain: SettlerChain;
  readonly signer: BatchSigner;
  readonly changes: Changes;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
}

/** Time for which the network's lock is held, and after which it is renewed. */
const HELD_MS = 10_000;
const RENEW_MS = 3_000;
/** First and longest time between checks of the chain while a transaction waits to be mined. */
const FIRST_LOOK_MS = 25;
const LONGEST_LOOK_MS = 500;
/** Time between checks while transactions are mined but not final. */
const FINAL_LOOK_MS = 2_000;
/** Time between checks for transactions that other processes queue. */
const SHARED_QUEUE_MS = 200;
/** Most queued transactions that one step reads: more than it signs, because some may have to wait. */
const QUEUE_PAGE = 4 * BATCH;

/**
 * Sends the queued transactions of one network: signs them with the next nonces, journals the bytes, broadcasts them
 * and follows them until they are final. One process does so at a time. Everything that it needs after a crash is in
 * the journal.
 */
export class Sender implements BackgroundService {
  readonly #parts: Parts;
  /** Undefined while another process owns the network, and after a failed write, so that the journal is read anew. */
  #sent: SentTransactions | undefined;
  #lookMs = FIRST_LOOK_MS;
  readonly #broadcasts = new Set<Promise<void>>();
  readonly #lock: LeaseLock;
  readonly #loop: BackgroundLoop;

  constructor(parts: Parts) {
    const { locks, network, owner, clock, logger } = parts;
    this.#parts = parts;
    this.#lock = new LeaseLock({
      locks,
      name: network,
      owner,
      heldMs: HELD_MS,
      renewMs: RENEW_MS,
      clock,
    });
    this.#loop = new BackgroundLoop({
      step: () => this.#step(),
      retryMs: RETRY_MS,
      onTrouble: (error) => logger.warn({ err: error, network }, "could not send transactions; trying again"),
      onRecovery: () => logger.info({ network }, "transactions are sent again"),
    });
  }

  start(): Promise<void> {
    return this.#loop.start();
  }

  /** Ends after the present step. Another process takes over at once. */
  async stop(): Promise<void> {
    await this.#loop.stop();
    await Promise.allSettled(this.#broadcasts);
    await this.#lock.giveUp(this.#parts.logger);
  }

  /** Checks the queue now. */
  poke(): void {
    this.#loop.wake();
  }

  get isOwner(): boolean {
    return this.#sent !== undefined;
  }

  /** State of a transaction that this process sent. */
  sent(reference: string): Sent | undefined {
    return this.#sent?.get(reference);
  }

  /** Number of transactions that wait to be mined; undefined where another process sends. */
  get unmined(): number | undefined {
    return this.#sent?.unmined().length;
  }

  /** @returns time until the next step */
  async #step(): Promise<number> {
    const { journal, network, chain, signer, isShared } = this.#parts;
    if (!(await this.#hold())) return RETRY_MS;
    const queue = await journal.listOpenTransactions(network, { state: "queued", limit: QUEUE_PAGE });
    const idleMs = isShared ? SHARED_QUEUE_MS : RENEW_MS;
    if (queue.transactions.length === 0 && this.#sent?.size === 0) return idleMs;

    const head = await chain.head();
    const sent = this.#sent ?? (await this.#load(head));
    const { signatures, ends } = await signer.signQueued(queue, sent, head);
    await this.#end(sent, ends);
    await this.#journalAndBroadcast(signatures, sent, head);
    await this.#follow(sent, head);
    const left = queue.transactions.length - ends.length - signatures.length;
    if (sent.unmined().length > 0) {
      this.#lookMs = Math.min(this.#lookMs * 1.5, LONGEST_LOOK_MS);
      return Math.min(this.#lookMs, idleMs);
    }
    return Math.min(left > 0 ? RETRY_MS : FINAL_LOOK_MS, idleMs);
  }

  async #hold(): Promise<boolean> {
    const { network, logger } = this.#parts;
    // Another process may have sent meanwhile.
    if (this.#lock.leftMs === 0) this.#sent = undefined;
    const isOwner = await this.#lock.hold();
    if (!isOwner && this.#sent !== undefined) {
      this.#sent = undefined;
      logger.warn({ network }, "another process sends this network's transactions now");
    }
    return isOwner;
  }

  /**
   * Reads the transactions that were signed, here or by the process before. The next check of the chain broadcasts
   * their bytes again.
   */
  async #load(head: Head): Promise<SentTransactions> {
    const { journal, network, chain, clock } = this.#parts;
    const sent = new SentTransactions(chain, clock);
    for (let after: number | undefined; ; ) {
      const page = await journal.listOpenTransactions(network, {
        state: "sent",
        limit: BATCH,
        after,
      });
      for (const record of page.transactions) if (isSigned(record)) sent.add(record, head);
      after = page.transactions.at(-1)?.id;
      if (page.transactions.length < BATCH) break;
    }
    this.#sent = sent;
    return sent;
  }

  async #journalAndBroadcast(batch: readonly Signature[], sent: SentTransactions, head: Head): Promise<void> {
    if (batch.length === 0) return;
    const { journal, network, owner, changes, clock } = this.#parts;
    const isReplacement = batch.some(({ signed }) => signed.replaces !== undefined);
    if (!isReplacement) faultPoint("transactions/before-journal");
    const signed = batch.map((one) => one.signed);
    await this.#write("signed", () => journal.signTransactions(network, owner, signed));
    faultPoint(isReplacement ? "transactions/after-replacement" : "transactions/after-journal");
    for (const { record, signed } of batch) {
      const { account, nonce, raw, hash } = signed;
      const earlierHashes = isSigned(record) ? hashesOf(record).toReversed() : [];
      const written = { account, nonce, raw, hash, earlierHashes, at: clock() };
      this.#broadcast(sent.add({ ...record, state: "sent", signed: written }, head), sent);
      changes.announce(record.reference);
    }
    this.#lookMs = FIRST_LOOK_MS;
  }

  /** After a write that failed or may have failed, only the journal shows the state. */
  async #write<Outcome extends string>(expected: Outcome, write: () => Promise<Outcome>): Promise<void> {
    try {
      const outcome = await write();
      if (outcome !== expected) throw new Error(`the journal refused transactions: ${outcome}`);
    } catch (error) {
      this.#sent = undefined;
      throw error;
    }
  }

  /** The broadcast is not awaited, because the chain shows its outcome, whatever the node answers. */
  #broadcast({ record }: Sent, sent: SentTransactions): void {
    const { chain, network, logger } = this.#parts;
    const { reference, signed } = record;
    const { hash, raw, account, nonce } = signed;
    sent.noteBroadcast(reference);
    const broadcast = chain
      .broadcast(raw)
      .then(() => faultPoint("transactions/after-broadcast"))
      .catch((error: unknown) =>
        logger.debug({ err: error, network, hash, account, nonce }, "a broadcast was not confirmed"),
      )
      .finally(() => {
        this.#broadcasts.delete(broadcast);
        this.poke();
      });
    this.#broadcasts.add(broadcast);
  }

  async #follow(sent: SentTransactions, head: Head): Promise<void> {
    const { changes, signer, network, telemetry } = this.#parts;
    const { mined, ends, unheard, stuck } = await sent.look(head);
    for (const reference of mined) changes.announce(reference);
    await this.#end(sent, [...ends, ...(await sent.final(head))]);
    for (const one of unheard) this.#broadcast(one, sent);
    if (stuck.length === 0) return;
    const replacements = await signer.signReplacements(stuck, head);
    await this.#journalAndBroadcast(replacements, sent, head);
    telemetry.count("jobgate_settler_replaced_total", { network }, replacements.length);
  }

  async #end(sent: SentTransactions, ends: readonly TransactionEnd[]): Promise<void> {
    if (ends.length === 0) return;
    const { journal, network, owner, signer, changes, logger } = this.#parts;
    await this.#write("finished", () => journal.finishTransactions(network, owner, ends));
    for (const end of ends) {
      if (end.state === "queued") {
        const { hash, account, nonce } = sent.get(end.reference)?.record.signed ?? {};
        logger.error(
          { network, hash, account, nonce },
          "another program sends with a settler's key: a settlement lost its nonce and is sent again",
        );
      }
      sent.remove(end.reference);
      signer.forget(end.reference);
      changes.announce(end.reference);
    }
  }
}

function isSigned(record: TransactionRecord): record is SignedRecord {
  return record.signed !== undefined;
}
