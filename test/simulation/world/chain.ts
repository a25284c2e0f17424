import { Accounts, type AccountTransaction, BASE_FEE } from "./accounts.ts";
import { ChannelContract } from "./channel-contract.ts";
import type { Call } from "./contracts.ts";
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
  /** Moved by a transaction: for a deferred payment, what is charged. */
  readonly amount: bigint;
  /** Unix seconds. */
  readonly validBefore: number;
}

/** Effect of a transaction besides the use of a permission. */
export interface Act {
  readonly name: string;
  /** Changes the state after the newest block. @returns false if it reverts */
  run(block: Pick<Block, "number" | "timestamp">): boolean;
}

export interface Transaction {
  readonly hash: string;
  /** Permission that it uses, if it settles. */
  readonly authorization: Authorization | undefined;
  readonly act?: Act | undefined;
  /** Account that sent it, if its nonces matter here. */
  readonly sent?: AccountTransaction;
}

export interface Mined extends Transaction {
  readonly isSuccess: boolean;
  /** Wei for each unit of gas, for those with an account. */
  readonly gasPrice?: bigint;
}

export interface Block {
  readonly number: number;
  readonly hash: string;
  readonly parentHash: string;
  /** Unix seconds. */
  readonly timestamp: number;
  readonly baseFee: bigint;
  readonly transactions: readonly Mined[];
}

const BLOCK_MS = 2_000;
/** Length of the chain at the beginning of a run. */
export const FIRST_BLOCK = 100;

/** A chain with one token. Blocks that a reorganisation removes are replaced at once by more than there were. */
export class Chain {
  /** Accounts that send transactions. */
  readonly accounts: Accounts;
  readonly channels = new ChannelContract();
  readonly #simulation: Simulation;
  readonly #maxReorg: number;
  readonly #blocks: Block[] = [];
  /** Block in which each nonce was used, on the chain as it is, by nonce and payer. */
  readonly #uses = new Map<string, Map<string, { readonly block: number; readonly amount: bigint }>>();
  #mempool: Transaction[] = [];
  /** Transactions that somebody will send. */
  #announced = 0;
  #count = 0;

  /** @param maxReorg blocks that a reorganisation may remove */
  constructor(simulation: Simulation, maxReorg: number) {
    this.#simulation = simulation;
    this.#maxReorg = maxReorg;
    this.accounts = new Accounts(simulation);
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
    return this.#uses.get(nonce)?.get(payer);
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
  send(authorization: Authorization | undefined, act?: Act): string {
    const hash = this.#newHash("tx");
    this.#mempool.push({ hash, authorization, act });
    return hash;
  }

  /** Takes a transaction later, of which nobody knows until then. */
  sendLater(authorization: Authorization | undefined, delayMs: number, act?: Act): void {
    const run = this.#simulation;
    this.#announced++;
    run.at(delayMs, run.world, () => {
      this.#announced--;
      this.send(authorization, act);
    });
  }

  /** Nothing is on its way. */
  isQuiet(): boolean {
    return this.#mempool.length + this.#announced === 0 && this.accounts.isQuiet;
  }

  #later(): void {
    const run = this.#simulation;
    run.at(BLOCK_MS, run.world, () => {
      const rate = this.accounts.addresses.length > 0 ? 0.15 : 0.05;
      if (this.#maxReorg > 0 && run.fault("reorganisation", rate)) this.#reorganise();
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
    const baseFee = this.accounts.nextBaseFee();
    const ofAccounts = this.accounts
      .take(baseFee)
      .map((sent) => ({ hash: sent.hash, sent, ...settles(sent) }));
    this.#add([...taken, ...ofAccounts], baseFee);
  }

  #add(transactions: readonly Transaction[], baseFee = BASE_FEE): void {
    const parent = this.#blocks.at(-1);
    const number = parent === undefined ? FIRST_BLOCK : parent.number + 1;
    const wallSecs = Math.floor(this.#simulation.wallMs / 1000);
    const timestamp = parent === undefined ? wallSecs - 60 : Math.max(parent.timestamp + 1, wallSecs);
    const mined = transactions.map((transaction) => this.#apply(transaction, { number, timestamp, baseFee }));
    const hash = this.#newHash("block");
    this.#blocks.push({
      number,
      hash,
      parentHash: parent?.hash ?? hash,
      timestamp,
      baseFee,
      transactions: mined,
    });
  }

  #apply(transaction: Transaction, block: Pick<Block, "number" | "timestamp" | "baseFee">): Mined {
    const { number, baseFee } = block;
    const { authorization, sent, act } = transaction;
    const isAllowed = this.succeeds(sent?.call ?? settling(authorization), sent?.from, block);
    const isSuccess = isAllowed && (act?.run(block) ?? true);
    if (isSuccess && authorization !== undefined) {
      const { payer, nonce, amount } = authorization;
      const uses = this.#uses.get(nonce) ?? new Map();
      this.#uses.set(nonce, uses.set(payer, { block: number, amount }));
    }
    if (act !== undefined)
      this.#simulation.say(`block ${number}: ${act.name} ${isSuccess ? "is made" : "reverts"}`);
    if (act !== undefined) return { ...transaction, isSuccess };
    const name =
      authorization === undefined ? `nonce ${sent?.nonce} of ${sent?.from}` : shortNonce(authorization.nonce);
    const amount = sent?.call?.kind === "transfer" ? sent.call.amount : (authorization?.amount ?? "nothing");
    this.#simulation.say(`block ${number}: ${name} ${isSuccess ? `moves ${amount}` : "reverts"}`);
    if (sent === undefined) return { ...transaction, isSuccess };
    const gasPrice = this.accounts.apply(sent, number, baseFee, isSuccess);
    return { ...transaction, isSuccess, gasPrice };
  }

  /** Reports whether a call succeeds in a block, as far as its node knows the chain. */
  succeeds(
    call: Call | undefined,
    from: string | undefined,
    { number, timestamp }: Pick<Block, "number" | "timestamp">,
  ): boolean {
    if (call?.kind === "transfer") return from !== undefined && this.accounts.canTransfer(from, call);
    if (call === undefined) return true;
    const { authorization, sender } = call;
    const { block: usedIn = Number.POSITIVE_INFINITY } = this.useOf(authorization) ?? {};
    const isSender = sender === undefined || sender === from;
    return isSender && usedIn > number && timestamp < authorization.validBefore;
  }

  #reorganise(): void {
    const run = this.#simulation;
    const depth = 1 + Math.floor(run.random("reorganisation depth") * this.#maxReorg);
    const removed = this.#blocks.splice(-depth);
    this.accounts.rollBack(this.head.number);
    this.channels.rollBack(this.head.number);
    for (const { transactions } of removed) {
      for (const { hash, authorization, act, sent, isSuccess } of transactions) {
        if (isSuccess && authorization) this.#uses.get(authorization.nonce)?.delete(authorization.payer);
        if (run.fault("a reorganisation drops a transaction", 0.3)) continue;
        if (sent === undefined) this.#mempool.push({ hash, authorization, act });
        else this.accounts.putBack(sent);
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

function settling(authorization: Authorization | undefined): Call | undefined {
  return authorization && { kind: "settle", authorization };
}

/** Permission that an account's transaction uses. */
function settles({ call }: AccountTransaction): Pick<Transaction, "authorization"> {
  return { authorization: call?.kind === "settle" ? call.authorization : undefined };
}
