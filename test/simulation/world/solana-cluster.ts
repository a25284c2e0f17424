import { createHash } from "node:crypto";
import { readTransfer, type Transfer } from "../../../src/parts/solana/payment.ts";
import { toBase58 } from "../../../src/parts/solana/portable/addresses.ts";
import type { Simulation } from "./simulation.ts";

/** Slots of a cluster at its pace, and of a slow one. */
const SLOT_MS = [400, 400, 800] as const;
/** Blocks for which a blockhash can be used. */
const LIFETIME_BLOCKS = 150;
/** Slots after which no fork replaces a block. */
const FINALIZED_SLOTS = 32;
/** Slots by which a block is confirmed, which almost no fork replaces. */
const CONFIRMED_SLOTS = 2;

/** A transaction that its fee payer has signed. */
interface SentTransaction {
  readonly signature: string;
  readonly base64: string;
  readonly transfer: Transfer;
}

export interface SolanaTransaction extends SentTransaction {
  readonly slot: number;
  readonly hasFailed: boolean;
}

export interface SolanaBlock {
  readonly slot: number;
  /** Number of blocks before it: fewer than slots, some of which have no block. */
  readonly height: number;
  readonly blockhash: string;
  readonly transactions: readonly SolanaTransaction[];
}

/** A cluster with one token, on which time is counted in slots. Forks replace blocks that are not finalized. */
export class SolanaCluster {
  readonly #simulation: Simulation;
  readonly slotMs: number;
  readonly #blocks: SolanaBlock[] = [];
  #slot = 1_000;
  #hashes = 0;
  /** Transactions on their way, and those that somebody will send. */
  #waiting: SentTransaction[] = [];
  #announced = 0;
  #lastLanded = 0;
  /** Hashes of messages that a block has moved money by which was confirmed. A fork may have replaced it since. */
  readonly #confirmed = new Set<string>();

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    this.slotMs = simulation.pick("time of a slot", SLOT_MS);
    for (let i = 0; i < 2 * LIFETIME_BLOCKS; i++) this.#add([]);
    this.#later();
  }

  /** Blocks up to a slot, from the oldest on. */
  blocksUpTo(slot: number): readonly SolanaBlock[] {
    let end = this.#blocks.length;
    while (end > 0 && (this.#blocks[end - 1] as SolanaBlock).slot > slot) end--;
    return this.#blocks.slice(0, end);
  }

  /** Newest slot at a commitment, for a node that is some slots behind. */
  slotAt(commitment: string, lag = 0): number {
    return this.#slot - lag - (commitment === "finalized" ? FINALIZED_SLOTS : CONFIRMED_SLOTS);
  }

  /** Unix seconds of a slot. */
  secsOf(slot: number): number {
    return Math.floor((this.#simulation.trueMs - (this.#slot - slot) * this.slotMs) / 1_000);
  }

  /** Token units that a message moved in a finalized block. */
  moved(messageHash: string): bigint {
    const landed = this.find(messageHash);
    if (landed === undefined || landed.hasFailed || landed.slot > this.slotAt("finalized")) return 0n;
    return landed.transfer.amount;
  }

  /** Reports whether a finalized block, or a later one, may yet move money by a message that has this blockhash. */
  mayMove(messageHash: string, blockhash: string): boolean {
    const finalized = this.blocksUpTo(this.slotAt("finalized"));
    const hasFailed = finalized.some(({ transactions }) =>
      transactions.some((one) => one.hasFailed && one.transfer.transaction.messageHash === messageHash),
    );
    const isGood = finalized.slice(-LIFETIME_BLOCKS).some((block) => block.blockhash === blockhash);
    return !hasFailed && (isGood || this.moved(messageHash) > 0n);
  }

  /** Reports whether a confirmed block ever showed that a message moved money. */
  wasConfirmed(messageHash: string): boolean {
    return this.#confirmed.has(messageHash);
  }

  /** Signature of the newest transaction that landed. */
  get lastSignature(): string | undefined {
    return this.#blocks.findLast(({ transactions }) => transactions.length > 0)?.transactions.at(-1)
      ?.signature;
  }

  /** Signs a transaction as its fee payer, and sends it. @returns its signature */
  send(base64: string): string {
    const transfer = readTransfer(base64);
    const { messageHash } = transfer.transaction;
    const signature = toBase58(createHash("sha512").update(messageHash).digest());
    this.#waiting.push({ signature, base64, transfer });
    return signature;
  }

  /** Sends a transaction later, of which nobody knows until then. */
  sendLater(base64: string, delayMs: number): void {
    const run = this.#simulation;
    this.#announced++;
    run.at(delayMs, run.world, () => {
      this.#announced--;
      this.send(base64);
    });
  }

  /** Nothing is on its way, and what landed is finalized. */
  isQuiet(): boolean {
    return this.#waiting.length + this.#announced === 0 && this.#lastLanded <= this.slotAt("finalized");
  }

  /** Finds the transaction of a message in a block, finalized or not. */
  find(messageHash: string): SolanaTransaction | undefined {
    for (const { transactions } of this.#blocks) {
      const found = transactions.find(({ transfer }) => transfer.transaction.messageHash === messageHash);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  #later(): void {
    const run = this.#simulation;
    run.at(this.slotMs, run.world, () => {
      if (run.fault("a fork wins", 0.02)) this.#fork();
      if (run.fault("a slot has no block", 0.1)) this.#slot++;
      else this.#produce();
      this.#noteConfirmed();
      this.#later();
    });
  }

  #noteConfirmed(): void {
    for (const { slot, transactions } of this.#blocks.slice(-2 * CONFIRMED_SLOTS))
      for (const { hasFailed, transfer } of transactions)
        if (!hasFailed && slot <= this.slotAt("confirmed"))
          this.#confirmed.add(transfer.transaction.messageHash);
  }

  #produce(): void {
    const run = this.#simulation;
    const [left, taken]: [SentTransaction[], SentTransaction[]] = [[], []];
    for (const one of this.#waiting)
      (run.fault("a transaction of Solana waits", 0.3) ? left : taken).push(one);
    this.#waiting = left;
    this.#add(taken);
  }

  #add(sent: readonly SentTransaction[]): void {
    const run = this.#simulation;
    const slot = ++this.#slot;
    const height = (this.#blocks.at(-1)?.height ?? 0) + 1;
    const known = this.#blocks.slice(-LIFETIME_BLOCKS).map(({ blockhash }) => blockhash);
    const transactions: SolanaTransaction[] = [];
    for (const one of sent) {
      const { messageHash, blockhash } = one.transfer.transaction;
      const isTwin = ({ transfer }: SolanaTransaction) => transfer.transaction.messageHash === messageHash;
      if (!known.includes(blockhash))
        run.say(`slot ${slot}: the blockhash of ${messageHash.slice(-6)} is unknown`);
      else if (this.find(messageHash) === undefined && !transactions.some(isTwin)) {
        const hasFailed = run.fault("a payer of Solana has no funds", 0.1);
        transactions.push({ ...one, slot, hasFailed });
        this.#lastLanded = slot;
        run.say(`slot ${slot}: ${messageHash.slice(-6)} ${hasFailed ? "fails" : "lands"}`);
      }
    }
    const blockhash = toBase58(
      createHash("sha256")
        .update(`block ${this.#hashes++}`)
        .digest(),
    );
    this.#blocks.push({ slot, height, blockhash, transactions });
  }

  /** Replaces the newest blocks. What was in them is sent again, or lost. */
  #fork(): void {
    const run = this.#simulation;
    const depth = 1 + Math.floor(run.random("slots of a fork") * (FINALIZED_SLOTS - 2));
    const from = this.#slot - depth;
    const removed = this.#blocks.filter(({ slot }) => slot > from);
    this.#blocks.splice(this.#blocks.length - removed.length);
    this.#slot = from;
    run.say(`a fork replaces ${depth} slots`);
    for (const one of removed.flatMap(({ transactions }) => transactions))
      if (!run.fault("a fork loses a transaction", 0.5)) this.#waiting.push(one);
    for (let i = 0; i < depth; i++) this.#add([]);
  }
}
