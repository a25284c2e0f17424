import { type Call, RpcFault, readCall } from "./contracts.ts";
import { decode } from "./settler-account.ts";
import type { Simulation } from "./simulation.ts";

/** A transaction of an account that the gateway or its operator has the key of. */
export interface AccountTransaction {
  readonly hash: string;
  readonly from: string;
  readonly nonce: number;
  readonly gas: bigint;
  readonly maxFeePerGas: bigint;
  readonly maxPriorityFeePerGas: bigint;
  readonly call: Call | undefined;
  /** Sent by somebody else who has the key. */
  readonly isForeign: boolean;
}

/** A transfer of tokens from an account. */
export interface Transfer {
  readonly from: string;
  readonly to: string;
  readonly amount: bigint;
  readonly hash: string;
  readonly block: number;
}

/** State of an account after a block, without what it was given. */
interface State {
  readonly block: number;
  /** Number of its mined transactions. */
  readonly nonce: number;
  readonly wei: bigint;
  readonly tokens: bigint;
  /** Spent by somebody else who has the key. */
  readonly foreignWei: bigint;
}

interface Account {
  readonly states: State[];
  given: { wei: bigint; tokens: bigint };
}

const NEW: State = { block: 0, nonce: 0, wei: 0n, tokens: 0n, foreignWei: 0n };
const GWEI = 10n ** 9n;
export const BASE_FEE = GWEI;
/** Base fees while many use the chain: the second is above the gateway's cap. */
const HIGH_FEES = [8n * GWEI, 30n * GWEI] as const;
const MOST_BLOCKS_OF_HIGH_FEES = 20;
/** Refused transfers to one payer last this long. */
const MOST_REFUSAL_MS = 30_000;
const MOST_LATE_MS = 10_000;

/** Accounts that send transactions: their nonces, balances, and a mempool in which bytes replace each other. */
export class Accounts {
  readonly #simulation: Simulation;
  readonly #accounts = new Map<string, Account>();
  /** Transactions by account and nonce: the newest bytes are the last. */
  readonly #mempool = new Map<string, AccountTransaction[]>();
  /** Transfers on the chain as it is, oldest first. */
  readonly transfers: Transfer[] = [];
  /** Payers that the token lets nobody send to, and until when. */
  readonly #refused = new Map<string, number>();
  /** Times until which no node has the receipts of transactions. */
  readonly #receiptsAt = new Map<string, number>();
  #foreignCount = 0;
  #highFee: { readonly fee: bigint; blocks: number } | undefined;

  /** Base fee once everything works. */
  readonly #lastFee: bigint;

  /** Is told of all bytes that reach a node. */
  onBroadcast: (from: string, nonce: number) => void = () => undefined;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    this.#lastFee = simulation.pick("last base fee", [BASE_FEE, HIGH_FEES[0]]);
  }

  get addresses(): readonly string[] {
    return [...this.#accounts.keys()];
  }

  /** Makes an account known, or adds to its balances. */
  give(
    address: string,
    { wei = 0n, tokens = 0n }: { readonly wei?: bigint; readonly tokens?: bigint },
  ): void {
    const account = this.#accounts.get(address) ?? { states: [NEW], given: { wei: 0n, tokens: 0n } };
    this.#accounts.set(address, account);
    account.given = { wei: account.given.wei + wei, tokens: account.given.tokens + tokens };
  }

  /** State of an account at a block. @returns undefined for an account that nobody here has the key of */
  at(address: string, block: number): Pick<State, "nonce" | "wei" | "tokens"> | undefined {
    const account = this.#accounts.get(address.toLowerCase());
    if (account === undefined) return undefined;
    const { wei, tokens, nonce } = account.states.findLast((state) => state.block <= block) ?? NEW;
    return { nonce, wei: wei + account.given.wei, tokens: tokens + account.given.tokens };
  }

  /** Coins and tokens that the gateway has spent of an account. */
  spent(address: string): { readonly wei: bigint; readonly tokens: bigint } {
    const { wei, tokens, foreignWei } = this.#accounts.get(address)?.states.at(-1) ?? NEW;
    return { wei: -wei - foreignWei, tokens: -tokens };
  }

  get isQuiet(): boolean {
    return this.#mempool.size === 0;
  }

  /** Base fee of the next block. */
  nextBaseFee(): bigint {
    const run = this.#simulation;
    if (this.#accounts.size === 0) return BASE_FEE;
    if (this.#highFee === undefined && run.fault("fees rise", 0.03)) {
      const fee = run.pick("high fee", HIGH_FEES);
      this.#highFee = {
        fee,
        blocks: Math.ceil(run.random("blocks of high fees") * MOST_BLOCKS_OF_HIGH_FEES),
      };
    }
    if (run.isHealed) this.#highFee = undefined;
    if (this.#highFee === undefined) return run.isHealed ? this.#lastFee : BASE_FEE;
    const { fee } = this.#highFee;
    if (--this.#highFee.blocks <= 0) this.#highFee = undefined;
    return fee;
  }

  /** Takes bytes into the mempool. @throws RpcFault as nodes do */
  send(raw: string): string {
    const { from, nonce, to, data, gas, fees, hash } = decode(raw);
    const state = this.at(from, Number.POSITIVE_INFINITY);
    if (state === undefined) throw new Error(`nobody has the key of ${from}`);
    if (nonce < state.nonce) throw new RpcFault("nonce too low");
    const waiting = this.#mempool.get(placeOf({ from, nonce })) ?? [];
    const newest = waiting.at(-1);
    if (newest?.hash === hash) throw new RpcFault("already known");
    if (newest !== undefined && !outbids(fees, newest))
      throw new RpcFault("replacement transaction underpriced");
    if (state.wei < gas * fees.maxFeePerGas) throw new RpcFault("insufficient funds for gas * price + value");
    this.onBroadcast(from, nonce);
    const call = readCall(to, data);
    this.#add({ hash, from, nonce, gas, ...fees, call, isForeign: false });
    return hash;
  }

  /** Returns a transaction that a reorganisation removed. */
  putBack(transaction: AccountTransaction): void {
    this.#add(transaction);
  }

  /** Takes the transactions that the next block has. */
  take(baseFee: bigint): AccountTransaction[] {
    const run = this.#simulation;
    for (const [place, waiting] of this.#mempool) {
      const from = waiting[0]?.from ?? "";
      const { nonce: count } = this.at(from, Number.POSITIVE_INFINITY) ?? NEW;
      const isUsed = (waiting[0]?.nonce ?? 0) < count;
      if (isUsed || run.fault("the mempool forgets a transaction", 0.02)) this.#mempool.delete(place);
    }
    return this.addresses.flatMap((address) => this.#takeOf(address, baseFee));
  }

  #takeOf(address: string, baseFee: bigint): AccountTransaction[] {
    const run = this.#simulation;
    const taken: AccountTransaction[] = [];
    let { nonce, wei } = this.at(address, Number.POSITIVE_INFINITY) ?? NEW;
    const next = { from: address, nonce };
    if (this.#mempool.has(placeOf(next)) && run.fault("somebody else sends with the key", 0.01)) {
      this.#mempool.delete(placeOf(next));
      taken.push(this.#foreign(next));
      nonce++;
    }
    for (; ; nonce++) {
      const waiting = this.#mempool.get(placeOf({ from: address, nonce }));
      if (waiting === undefined || run.fault("a transaction waits in the mempool", 0.1)) return taken;
      const payable = waiting.filter(
        (one) => one.maxFeePerGas >= baseFee && one.gas * one.maxFeePerGas <= wei,
      );
      const isOlder = payable.length > 1 && run.fault("a block has the bytes that were replaced", 0.3);
      const chosen = isOlder ? payable[0] : payable.at(-1);
      if (chosen === undefined) return taken;
      this.#mempool.delete(placeOf(chosen));
      wei -= chosen.gas * chosen.maxFeePerGas;
      taken.push(chosen);
    }
  }

  /** Reports whether a transfer of tokens succeeds after the newest block. */
  canTransfer(from: string, { to, amount }: { readonly to: string; readonly amount: bigint }): boolean {
    const state = this.at(from, Number.POSITIVE_INFINITY);
    return state !== undefined && state.tokens >= amount && !this.#refuses(to);
  }

  /** Lets the token refuse transfers to a payer for some time. */
  refuse(payer: string): void {
    const run = this.#simulation;
    this.#refused.set(payer, run.now + run.delay("the token refuses", 1_000, MOST_REFUSAL_MS));
  }

  /** Applies a mined transaction. @returns the price of its gas */
  apply(transaction: AccountTransaction, block: number, baseFee: bigint, isSuccess: boolean): bigint {
    const run = this.#simulation;
    const { from, hash, call, isForeign } = transaction;
    const account = this.#accounts.get(from);
    if (account === undefined) throw new Error(`there is no account ${from}`);
    const { nonce, wei, tokens, foreignWei } = account.states.at(-1) ?? NEW;
    const price = gasPrice(transaction, baseFee);
    if (run.fault("a receipt comes late", 0.1))
      this.#receiptsAt.set(hash, run.now + run.delay("late receipt", 1_000, MOST_LATE_MS));
    const moved = isSuccess && call?.kind === "transfer" ? call.amount : 0n;
    if (moved > 0n && call?.kind === "transfer")
      this.transfers.push({ from, to: call.to, amount: moved, hash, block });
    const spent = gasUsed(transaction) * price;
    account.states.push({
      ...{ block, nonce: nonce + 1, wei: wei - spent, tokens: tokens - moved },
      foreignWei: foreignWei + (isForeign ? spent : 0n),
    });
    return price;
  }

  /** Reports whether nodes that have a transaction's block have its receipt. */
  hasReceipt(hash: string): boolean {
    return this.#simulation.isHealed || this.#simulation.now >= (this.#receiptsAt.get(hash) ?? 0);
  }

  /** Forgets what happened after a block. */
  rollBack(block: number): void {
    for (const { states } of this.#accounts.values())
      while ((states.at(-1)?.block ?? 0) > block) states.pop();
    while ((this.transfers.at(-1)?.block ?? 0) > block) this.transfers.pop();
  }

  #refuses(payer: string): boolean {
    return !this.#simulation.isHealed && (this.#refused.get(payer) ?? 0) > this.#simulation.now;
  }

  #foreign(next: Pick<AccountTransaction, "from" | "nonce">): AccountTransaction {
    const hash = `0xf${(this.#foreignCount++).toString(16).padStart(63, "0")}`;
    const fees = { maxFeePerGas: 100n * GWEI, maxPriorityFeePerGas: GWEI };
    return { ...next, ...fees, hash, gas: 21_000n, call: undefined, isForeign: true };
  }

  #add(transaction: AccountTransaction): void {
    const place = placeOf(transaction);
    this.#mempool.set(place, [...(this.#mempool.get(place) ?? []), transaction]);
  }
}

/** Gas that a transaction uses: the gateway adds a quarter to what it expects. */
export function gasUsed({ gas }: AccountTransaction): bigint {
  return (gas * 4n) / 5n;
}

function gasPrice({ maxFeePerGas, maxPriorityFeePerGas }: AccountTransaction, baseFee: bigint): bigint {
  if (baseFee + maxPriorityFeePerGas < maxFeePerGas) return baseFee + maxPriorityFeePerGas;
  return maxFeePerGas;
}

function placeOf({ from, nonce }: Pick<AccountTransaction, "from" | "nonce">): string {
  return `${from} ${nonce}`;
}

/** Nodes replace bytes by those that pay 10 % more. */
function outbids(
  fees: Pick<AccountTransaction, "maxFeePerGas" | "maxPriorityFeePerGas">,
  newest: AccountTransaction,
): boolean {
  const isMore = (fee: bigint, than: bigint) => fee * 10n >= than * 11n;
  return (
    isMore(fees.maxFeePerGas, newest.maxFeePerGas) &&
    isMore(fees.maxPriorityFeePerGas, newest.maxPriorityFeePerGas)
  );
}
