import { shortNonce } from "./laws.ts";
import type { Simulation } from "./simulation.ts";

/** A payer's signed permission to move tokens once. Addresses and nonces are lower case. */
export interface Authorization {
  readonly payer: string;
  /** EIP-3009: 32 bytes in hex. Permit2: decimal. */
  readonly nonce: string;
  /** Contract that settles it, if Permit2 keeps the nonce. */
  readonly proxy?: string;
  readonly to: string;
  /** Moved by a transaction: for a payment by use, what is charged. */
  readonly amount: bigint;
  /** Unix seconds. */
  readonly validBefore: number;
}

export interface Transaction {
  readonly hash: string;
  readonly authorization: Authorization;
}

export interface Mined extends Transaction {
  readonly isSuccess: boolean;
}

export interface Block {
  readonly number: number;
  readonly hash: string;
  readonly parentHash: string;
  /** Unix seconds. */
  readonly timestamp: number;
  readonly transactions: readonly Mined[];
}

const BLOCK_MS = 2_000;
/** Length of the chain at the beginning of a run. */
export const FIRST_BLOCK = 100;

/** A chain with one token. Blocks that a reorganisation removes are replaced at once by more than there were. */
export class Chain {
  readonly #simulation: Simulation;
  readonly #maxReorg: number;
  readonly #blocks: Block[] = [];
  /** Block in which each nonce was used, on the chain as it is. */
  readonly #uses = new Map<string, { readonly block: number; readonly amount: bigint }>();
  #mempool: Transaction[] = [];
  /** Transactions that somebody will send. */
  #announced = 0;
  #count = 0;

  /** @param maxReorg blocks that a reorganisation may remove */
  constructor(simulation: Simulation, maxReorg: number) {
    this.#simulation = simulation;
    this.#maxReorg = maxReorg;
    for (let i = 0; i < 20; i++) this.#add([]);
    this.#later();
  }

  get head(): Block {
    return this.#blocks.at(-1) as Block;
  }

  block(number: number): Block | undefined {
    return this.#blocks[number - FIRST_BLOCK];
  }

  blockByHash(hash: string): Block | undefined {
    return this.#blocks.find((block) => block.hash === hash);
  }

  /** Block in which a nonce was used, and what moved; undefined if it is unused. */
  useOf({
    payer,
    nonce,
  }: Pick<Authorization, "payer" | "nonce">):
    | { readonly block: number; readonly amount: bigint }
    | undefined {
    return this.#uses.get(`${payer} ${nonce}`);
  }

  /** Hash of the newest transaction that succeeded. */
  get lastTransaction(): string | undefined {
    for (let i = this.#blocks.length - 1; i >= 0; i--) {
      const mined = this.#blocks[i]?.transactions.find(({ isSuccess }) => isSuccess);
      if (mined !== undefined) return mined.hash;
    }
    return undefined;
  }

  /** Finds a mined transaction. */
  find(hash: string): { readonly block: Block; readonly mined: Mined } | undefined {
    for (let i = this.#blocks.length - 1; i >= 0; i--) {
      const block = this.#blocks[i] as Block;
      const mined = block.transactions.find((one) => one.hash === hash);
      if (mined !== undefined) return { block, mined };
    }
    return undefined;
  }

  /** Takes a transaction into the mempool. @returns its hash */
  send(authorization: Authorization): string {
    const hash = this.#newHash("tx");
    this.#mempool.push({ hash, authorization });
    return hash;
  }

  /** Takes a transaction later, of which nobody knows until then. */
  sendLater(authorization: Authorization, delayMs: number): void {
    const run = this.#simulation;
    this.#announced++;
    run.at(delayMs, run.world, () => {
      this.#announced--;
      this.send(authorization);
    });
  }

  /** Nothing is on its way. */
  isQuiet(): boolean {
    return this.#mempool.length + this.#announced === 0;
  }

  #later(): void {
    const run = this.#simulation;
    run.at(BLOCK_MS, run.world, () => {
      if (this.#maxReorg > 0 && run.fault("reorganisation", 0.05)) this.#reorganise();
      this.#mine();
      this.#later();
    });
  }

  #mine(): void {
    const run = this.#simulation;
    const waits = (_: Transaction) =>
      this.#mempool.length > 0 && run.fault("a transaction waits in the mempool", 0.1);
    const [left, taken]: [Transaction[], Transaction[]] = [[], []];
    for (const transaction of this.#mempool) (waits(transaction) ? left : taken).push(transaction);
    this.#mempool = left;
    this.#add(taken);
  }

  #add(transactions: readonly Transaction[]): void {
    const parent = this.#blocks.at(-1);
    const number = parent === undefined ? FIRST_BLOCK : parent.number + 1;
    const wallSecs = Math.floor(this.#simulation.wallMs / 1000);
    const timestamp = parent === undefined ? wallSecs - 60 : Math.max(parent.timestamp + 1, wallSecs);
    const mined = transactions.map(({ hash, authorization }) => {
      const { payer, nonce, validBefore } = authorization;
      const isSuccess = this.useOf(authorization) === undefined && timestamp < validBefore;
      if (isSuccess) this.#uses.set(`${payer} ${nonce}`, { block: number, amount: authorization.amount });
      this.#simulation.say(
        `block ${number}: ${shortNonce(nonce)} ${isSuccess ? `moves ${authorization.amount}` : "reverts"}`,
      );
      return { hash, authorization, isSuccess };
    });
    const hash = this.#newHash("block");
    this.#blocks.push({ number, hash, parentHash: parent?.hash ?? hash, timestamp, transactions: mined });
  }

  #reorganise(): void {
    const run = this.#simulation;
    const depth = 1 + Math.floor(run.random("reorganisation depth") * this.#maxReorg);
    const removed = this.#blocks.splice(-depth);
    for (const { transactions } of removed) {
      for (const { hash, authorization, isSuccess } of transactions) {
        if (isSuccess) this.#uses.delete(`${authorization.payer} ${authorization.nonce}`);
        if (!run.fault("a reorganisation drops a transaction", 0.3))
          this.#mempool.push({ hash, authorization });
      }
    }
    run.say(`the chain drops ${depth} blocks`);
    for (let i = 0; i < depth; i++) this.#add([]);
  }

  #newHash(kind: string): string {
    this.#count++;
    return `0x${kind === "tx" ? "7" : "b"}${this.#count.toString(16).padStart(63, "0")}`;
  }
}
