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
import type {
  OpenTransactions,
  TransactionEnd,
  TransactionJournal,
  TransactionRecord,
} from "./store/journal.ts";

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
/** Time from the answer to a broadcast to the first check of the chain, because no chain mines the transaction at once. */
const FIRST_LOOK_MS = 3;
/** Growth of the time between checks while a transaction waits to be mined, and the longest such time. */
const LOOK_FACTOR = 2;
const LONGEST_LOOK_MS = 500;
/** Age up to which a known newest block is used to follow transactions. An older block only makes them look younger. */
const HEAD_AGE_MS = 250;
/** Time between checks while transactions are mined but not final. */
const FINAL_LOOK_MS = 2_000;
/** Time between checks for transactions that other processes queue. */
const SHARED_QUEUE_MS = 200;
const NOTHING_QUEUED: OpenTransactions = { transactions: [], lastNonces: [] };
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
  #head: { readonly block: Head; readonly readAtMs: number } | undefined;
  /** Number of calls that announced a change of the queue. */
  #announced = 0;
  /** When the queue was last known to be empty, and the number of announced changes at that time. */
  #empty: { readonly announced: number; readonly atMs: number } | undefined;
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
    this.#announced += 1;
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
    const { signer, isShared, clock } = this.#parts;
    if (!(await this.#hold())) return RETRY_MS;
    const seen = { announced: this.#announced, atMs: clock() };
    const queue = await this.#listQueued(seen);
    const queued = queue.transactions.length;
    const idleMs = isShared ? SHARED_QUEUE_MS : RENEW_MS;
    if (queued === 0 && this.#sent?.size === 0) return idleMs;

    const head = await this.#readHead(queued > 0 ? 0 : HEAD_AGE_MS);
    const sent = this.#sent ?? (await this.#load(head));
    const { signatures, ends } = await signer.signQueued(queue, sent, head);
    await this.#end(sent, ends);
    const waited = sent.unmined().length;
    await this.#journalAndBroadcast(signatures, sent, head);
    const left = queued - ends.length - signatures.length;
    if (queued > 0 && queued < QUEUE_PAGE && left === 0) this.#empty = seen;
    // A step after the answer to the broadcast follows the transaction.
    if (waited > 0 || signatures.length === 0) await this.#follow(sent, head);
    if (sent.unmined().length > 0) {
      this.#lookMs = Math.min(this.#lookMs * LOOK_FACTOR, LONGEST_LOOK_MS);
      return Math.min(this.#lookMs, idleMs);
    }
    return Math.min(left > 0 ? RETRY_MS : FINAL_LOOK_MS, idleMs);
  }

  /** Reads the queue, unless it is known to be empty: a read takes a fiftieth of a payment's CPU. */
  async #listQueued(now: { readonly announced: number; readonly atMs: number }): Promise<OpenTransactions> {
    const { journal, network, isShared } = this.#parts;
    const isEmpty = this.#empty?.announced === now.announced && now.atMs - this.#empty.atMs < RENEW_MS;
    if (isEmpty && !isShared) return NOTHING_QUEUED;
    const queue = await journal.listOpenTransactions(network, { state: "queued", limit: QUEUE_PAGE });
    this.#empty = queue.transactions.length === 0 ? now : undefined;
    return queue;
  }

  async #readHead(ageMs: number): Promise<Head> {
    const { chain, clock } = this.#parts;
    const readAtMs = clock();
    if (this.#head === undefined || readAtMs - this.#head.readAtMs >= ageMs)
      this.#head = { block: await chain.head(), readAtMs };
    return this.#head.block;
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
        setTimeout(() => this.#loop.wake(), FIRST_LOOK_MS).unref();
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
        this.poke();
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
