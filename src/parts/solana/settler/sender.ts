import type { Logger } from "pino";
import { BackgroundLoop } from "../../../core/background-loop.ts";
import type { BackgroundService } from "../../../core/background-service.ts";
import { type Clock, systemClock } from "../../../core/clock.ts";
import { faultPoint } from "../../../core/fault-points.ts";
import { LeaseLock, type Locks } from "../../../core/lease-lock.ts";
import type { Changes } from "../../transactions/changes.ts";
import type {
  OpenTransactions,
  TransactionEnd,
  TransactionJournal,
  TransactionRecord,
} from "../../transactions/store/journal.ts";
import type { OwnChain } from "./own-chain.ts";

/** A transaction with the signature of the account that pays for it. */
export interface Signed {
  readonly reference: string;
  readonly raw: string;
  readonly hash: string;
}

/** Signs the transactions of one queue, and knows when they have expired. */
export interface TransactionSigner {
  /** Account that pays for the transactions. */
  readonly account: string;
  /**
   * Signs queued transactions.
   * @returns also the ends of transactions that can never land. Transactions in neither list wait
   */
  sign(queued: readonly TransactionRecord[]): Promise<{
    readonly signed: readonly Signed[];
    readonly refused: readonly TransactionEnd[];
  }>;
  /** Reports whether a transaction that no confirmed block has can no longer land. It may have landed. */
  hasExpired(record: TransactionRecord): Promise<boolean>;
  /** State of an expired transaction that no block has. `queued`: it is signed anew. */
  readonly expired: "queued" | "dropped";
}

interface Parts {
  /** Name of the queue: the network, and the purpose of the queue if it is not settlement. */
  readonly network: string;
  /** Unique to this process's life. */
  readonly owner: string;
  readonly signer: TransactionSigner;
  readonly journal: TransactionJournal;
  readonly locks: Locks;
  /** True if other processes also queue transactions. */
  readonly isShared: boolean;
  readonly chain: OwnChain;
  readonly changes: Changes;
  readonly clock: Clock;
  /** Wall clock. Default: the system's. */
  readonly now?: Clock;
  readonly logger: Logger;
}

/** Time for which the network's lock is held, and after which it is renewed. */
const HELD_MS = 10_000;
const RENEW_MS = 3_000;
const RETRY_MS = 1_000;
/**
 * Interval between checks of the chain while a transaction is not final. Transactions that no block contains are broadcast
 * again.
 */
const LOOK_MS = 2_000;
/** Interval between checks for transactions that other processes have queued. */
const SHARED_QUEUE_MS = 200;
/** Most transactions that are signed and journalled in one write. */
const BATCH = 64;
/**
 * Time from the signature until the first check whether the transaction has expired. Before that time, a lagging node
 * may not know the blockhash yet.
 */
const EXPIRES_AFTER_MS = 90_000;

/**
 * Sends the queued transactions of one account on one cluster: has them signed, journals the bytes, and broadcasts them until a
 * finalized block has them or they have expired. One process sends at a time.
 */
export class SolanaSender implements BackgroundService {
  readonly #parts: Parts;
  readonly #lock: LeaseLock;
  readonly #loop: BackgroundLoop;
  #unmined: number | undefined;

  constructor(parts: Parts) {
    const { locks, network, owner, clock, logger } = parts;
    this.#parts = parts;
    this.#lock = new LeaseLock({ locks, name: network, owner, heldMs: HELD_MS, renewMs: RENEW_MS, clock });
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
    await this.#lock.giveUp(this.#parts.logger);
  }

  /** Checks the queue now. */
  poke(): void {
    this.#loop.wake();
  }

  /** True while this process sends. */
  get isOwner(): boolean {
    return this.#unmined !== undefined;
  }

  /** Number of transactions that are not final; undefined if another process sends. */
  get unmined(): number | undefined {
    return this.#unmined;
  }

  /** @returns time until the next step */
  async #step(): Promise<number> {
    const { journal, network, isShared } = this.#parts;
    if (!(await this.#lock.hold())) {
      this.#unmined = undefined;
      return RETRY_MS;
    }
    const queue = await journal.listOpenTransactions(network, { state: "queued", limit: BATCH });
    const sent = await this.#signAndBroadcast(queue);
    const left = await this.#follow(sent);
    this.#unmined = left;
    if (sent.length === BATCH) return 0;
    const idleMs = isShared ? SHARED_QUEUE_MS : RENEW_MS;
    return left > 0 ? Math.min(LOOK_MS, idleMs) : idleMs;
  }

  async #signAndBroadcast({ transactions, lastNonces }: OpenTransactions): Promise<readonly Signed[]> {
    if (transactions.length === 0) return [];
    const { journal, network, owner, signer, changes } = this.#parts;
    const { signed: ready, refused } = await signer.sign(transactions);
    await this.#end(refused);
    if (ready.length === 0) return [];
    const { account } = signer;
    // The journal numbers the transactions of an account. Solana's have no number.
    const last = lastNonces.find((one) => one.account === account)?.nonce ?? -1;
    const signed = ready.map((one, i) => ({ ...one, account, nonce: last + 1 + i }));
    faultPoint("transactions/before-journal");
    const outcome = await journal.signTransactions(network, owner, signed);
    if (outcome !== "signed") throw new Error(`the journal refused transactions: ${outcome}`);
    faultPoint("transactions/after-journal");
    await Promise.all(signed.map(({ raw }) => this.#broadcast(raw)));
    faultPoint("transactions/after-broadcast");
    for (const { reference } of signed) changes.announce(reference);
    return signed;
  }

  /** Never rejects, because the chain shows the outcome, whatever the node answers. */
  async #broadcast(raw: string): Promise<void> {
    const { chain, network, logger } = this.#parts;
    await chain
      .broadcast(raw)
      .catch((error: unknown) => logger.debug({ err: error, network }, "a broadcast was not confirmed"));
  }

  /**
   * Checks every transaction that this process or an earlier process sent. @returns the number of transactions that are not
   * final
   */
  async #follow(justSent: readonly Signed[]): Promise<number> {
    const { journal, network, chain } = this.#parts;
    let open = 0;
    for (let after: number | undefined; ; ) {
      const page = await journal.listOpenTransactions(network, { state: "sent", limit: BATCH, after });
      const { transactions } = page;
      if (transactions.length === 0) return open;
      const statuses = await chain.statuses(transactions.map(({ signed }) => signed?.hash ?? ""));
      const ends = await Promise.all(
        transactions.map(async (one, i) => {
          const status = statuses[i];
          const isNew = justSent.some(({ reference }) => reference === one.reference);
          if (status === undefined) return isNew ? undefined : this.#expireOrBroadcast(one);
          return status.isFinalized ? this.#endOf(one) : undefined;
        }),
      );
      const ended = ends.filter((end) => end !== undefined);
      open += transactions.length - ended.length;
      await this.#end(ended);
      after = transactions.at(-1)?.id;
      if (transactions.length < BATCH) return open;
    }
  }

  async #endOf({ reference, signed }: TransactionRecord): Promise<TransactionEnd | undefined> {
    const hash = signed?.hash ?? "";
    const landed = await this.#parts.chain.finalized(hash);
    if (landed === undefined) return undefined;
    const { slot, hasFailed, feeWei } = landed;
    const fee = feeWei === undefined ? {} : { fee: feeWei.toString() };
    return {
      reference,
      state: hasFailed ? "reverted" : "succeeded",
      hash,
      blockNumber: String(slot),
      ...fee,
    };
  }

  async #expireOrBroadcast(record: TransactionRecord): Promise<TransactionEnd | undefined> {
    const { signer, now = systemClock } = this.#parts;
    const { reference, signed } = record;
    const isOld = now() - (signed?.at ?? 0) >= EXPIRES_AFTER_MS;
    if (isOld && (await signer.hasExpired(record))) {
      // The state is read afterwards, when no later block can contain the transaction.
      const landed = await this.#endOf(record);
      return landed ?? { reference, state: signer.expired, reason: "its blockhash expired" };
    }
    await this.#broadcast(signed?.raw ?? "");
    return undefined;
  }

  async #end(ends: readonly TransactionEnd[]): Promise<void> {
    if (ends.length === 0) return;
    const { journal, network, owner, changes } = this.#parts;
    // The journal drops unsigned transactions. A transaction whose blockhash has expired is treated as unsigned.
    const expired = ends.filter(({ state }) => state === "dropped");
    for (const some of [expired.map(({ reference }) => ({ reference, state: "queued" as const })), ends]) {
      if (some.length === 0) continue;
      const outcome = await journal.finishTransactions(network, owner, some);
      if (outcome !== "finished") throw new Error(`the journal refused the ends of transactions: ${outcome}`);
    }
    for (const { reference } of ends) changes.announce(reference);
  }
}
