import type { Logger } from "pino";
import { RpcError } from "../../chain/rpc.ts";
import type { Clock } from "../../core/clock.ts";
import { readSigned, type SettlerAccount } from "./account.ts";
import { type Head, MAX_SETTLEMENT_GAS, type SettlerChain } from "./chain.ts";
import { type Fees, newFees, raisedFees } from "./fees.ts";
import type { Funds } from "./funds.ts";
import type { Sent, SentTransactions } from "./sent-transactions.ts";
import type {
  OpenTransactions,
  SignedTransaction,
  TransactionEnd,
  TransactionRecord,
} from "./store/journal.ts";

/** Returns the only account that can send a transaction; undefined if any can. Lower case. */
export type SenderOf = (transaction: Pick<TransactionRecord, "to" | "data">) => `0x${string}` | undefined;

interface Parts {
  readonly network: string;
  readonly chain: SettlerChain;
  readonly accounts: readonly SettlerAccount[];
  readonly senderOf: SenderOf;
  readonly funds: Funds;
  readonly maxFeePerGasWei: bigint;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A transaction with the bytes that are to be journalled. */
export interface Signature {
  readonly record: TransactionRecord;
  readonly signed: SignedTransaction;
}

/** One account, and what it is to sign. */
interface Lane {
  readonly account: SettlerAccount;
  /** Number of its transactions that wait to be mined. */
  readonly unmined: number;
  readonly nextNonce: number;
  /** Rest of its balance. */
  balanceWei: bigint;
  readonly calls: { readonly record: TransactionRecord; readonly gas: bigint }[];
}

type Estimate =
  | { readonly kind: "gas"; readonly gas: bigint }
  | { readonly kind: "refused"; readonly reason: string }
  | { readonly kind: "later" };

/** Most transactions that are signed and journalled in one write. */
export const BATCH = 64;
/**
 * Transactions of one account that may wait to be mined. The number is small, because nodes keep few for each account.
 */
const MAX_UNMINED = 64;
/** Delay before the next attempt at a transaction that the node did not estimate. */
export const RETRY_MS = 1_000;
/** Number of estimates after which a transaction that the node refuses for reasons other than a revert is dropped. */
const MAX_REFUSED_ESTIMATES = 20;
/** Longest part of a node's words that is kept as reason. */
const MAX_REASON_LENGTH = 300;

/**
 * Signs transactions: gives queued transactions the next nonces of the accounts, and stuck transactions higher fees. Sends
 * nothing.
 */
export class BatchSigner {
  readonly #parts: Parts;
  /** Estimates that the node refused, by reference. */
  readonly #refusals = new Map<string, { readonly count: number; readonly retryAtMs: number }>();
  /** Reasons to wait that were logged and still hold. */
  readonly #warned = new Set<string>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Signs the transactions that can be sent now.
   * @returns the signatures, and the outcomes of transactions that can never be sent; other transactions stay queued
   */
  async signQueued(
    queue: OpenTransactions,
    sent: SentTransactions,
    head: Head,
  ): Promise<{ readonly signatures: readonly Signature[]; readonly ends: readonly TransactionEnd[] }> {
    const { accounts, chain, maxFeePerGasWei, clock } = this.#parts;
    const isExpired = (one: TransactionRecord) => endOf(one) <= head.timestamp;
    const ends: TransactionEnd[] = queue.transactions
      .filter(isExpired)
      .map(({ reference }) => ({ reference, state: "dropped", reason: "expired before it was sent" }));
    const room = accounts.reduce(
      (sum, { address }) => sum + Math.max(0, MAX_UNMINED - sent.unmined(address).length),
      0,
    );
    const due = queue.transactions
      .filter((one) => !isExpired(one) && clock() >= (this.#refusals.get(one.reference)?.retryAtMs ?? 0))
      // The transaction that ends first is sent first, because a transaction that comes too late is money lost.
      .sort((a, b) => endOf(a) - endOf(b))
      .slice(0, Math.min(BATCH, room));
    if (due.length === 0) return { signatures: [], ends };

    const [tip, lanes, estimates] = await Promise.all([
      chain.tip(),
      this.#lanes(queue, sent),
      Promise.all(due.map((record) => this.#estimate(record))),
    ]);
    const fees = newFees({ ...head, tip }, maxFeePerGasWei);
    this.#warnWhile(
      fees === undefined,
      "cap",
      { baseFeePerGas: head.baseFeePerGas.toString() },
      "the base fee is above max_fee_per_gas_gwei: settlements wait",
    );
    for (const [i, record] of due.entries()) {
      const estimate = estimates[i];
      const { reference } = record;
      if (estimate?.kind === "refused") ends.push({ reference, state: "dropped", reason: estimate.reason });
      if (estimate?.kind === "gas" && fees !== undefined)
        assign(record, estimate.gas, fees, this.#lanesFor(record, lanes));
    }
    if (fees === undefined) return { signatures: [], ends };
    const signing = lanes.flatMap(({ account, nextNonce, calls }) =>
      calls.map(({ record, gas }, i) => this.#sign({ record, account, nonce: nextNonce + i, gas, fees })),
    );
    return { signatures: await Promise.all(signing), ends };
  }

  #lanesFor(record: TransactionRecord, lanes: readonly Lane[]): readonly Lane[] {
    const sender = this.#parts.senderOf(record);
    return lanes.filter(({ account }) => sender === undefined || account.address.toLowerCase() === sender);
  }

  /** Signs stuck transactions again, at their nonces, with higher fees. Leaves out transactions at the cap. */
  async signReplacements(stuck: readonly Sent[], head: Head): Promise<Signature[]> {
    const { chain, accounts, maxFeePerGasWei } = this.#parts;
    const market = { ...head, tip: await chain.tip() };
    const signing = stuck.slice(0, BATCH).flatMap(({ record }) => {
      const { account: address, nonce, raw, hash } = record.signed;
      const { gas, fees: present } = readSigned(raw);
      const fees = raisedFees(present, market, maxFeePerGasWei);
      const account = accounts.find((one) => one.address.toLowerCase() === address.toLowerCase());
      const fields = { hash, address, nonce };
      const message =
        account === undefined
          ? "a settlement waits to be mined, and its key is no longer configured"
          : "a settlement waits to be mined at max_fee_per_gas_gwei";
      this.#warnWhile(fees === undefined || account === undefined, record.reference, fields, message);
      return fees && account ? [this.#sign({ record, account, nonce, gas, fees })] : [];
    });
    return Promise.all(signing);
  }

  /** Forgets a transaction that has ended. */
  forget(reference: string): void {
    this.#refusals.delete(reference);
    this.#warned.delete(reference);
  }

  async #lanes(queue: OpenTransactions, sent: SentTransactions): Promise<Lane[]> {
    const { chain, accounts, funds } = this.#parts;
    const usable = await funds.usable();
    return Promise.all(
      accounts.flatMap((account) => {
        const { address } = account;
        const balanceWei = usable.get(address);
        if (balanceWei === undefined) return [];
        // The chain's count is higher if another program sent with the key.
        return chain.transactionCount(address).then((count) => ({
          account,
          unmined: sent.unmined(address).length,
          nextNonce: Math.max(lastNonce(queue, address) + 1, count),
          balanceWei,
          calls: [],
        }));
      }),
    );
  }

  /** The estimate is also the simulation, so a transaction that would revert is never sent. */
  async #estimate(record: TransactionRecord): Promise<Estimate> {
    const { reference, to, data } = record;
    const { chain, accounts, network, clock, logger } = this.#parts;
    try {
      const gas = await chain.estimateGas({
        from: this.#parts.senderOf(record) ?? accounts[0]?.address ?? to,
        to,
        data,
      });
      this.#refusals.delete(reference);
      if (gas > MAX_SETTLEMENT_GAS) {
        return { kind: "refused", reason: `it would use ${gas} gas; expected at most ${MAX_SETTLEMENT_GAS}` };
      }
      // Other transactions may change the contract's state before this one is mined.
      return { kind: "gas", gas: (gas * 5n) / 4n };
    } catch (error) {
      const reason = error instanceof RpcError ? error.details.slice(0, MAX_REASON_LENGTH) : undefined;
      if (reason !== undefined && error instanceof RpcError && error.isRevert)
        return { kind: "refused", reason };
      logger.warn({ err: error, network, reference }, "could not estimate a settlement's gas; trying again");
      const count = (this.#refusals.get(reference)?.count ?? 0) + (reason === undefined ? 0 : 1);
      if (reason !== undefined && count >= MAX_REFUSED_ESTIMATES) return { kind: "refused", reason };
      this.#refusals.set(reference, { count, retryAtMs: clock() + RETRY_MS });
      return { kind: "later" };
    }
  }

  async #sign(call: {
    readonly record: TransactionRecord;
    readonly account: SettlerAccount;
    readonly nonce: number;
    readonly gas: bigint;
    readonly fees: Fees;
  }): Promise<Signature> {
    const { record, account, nonce, gas, fees } = call;
    const { reference, to, data, signed: present } = record;
    const { chainId } = this.#parts.chain;
    const { raw, hash } = await account.sign({ chainId, nonce, to, data, gas, fees });
    const replaces = present === undefined ? {} : { replaces: present.hash };
    return { record, signed: { reference, account: account.address, nonce, raw, hash, ...replaces } };
  }

  /** Logs once when a reason to wait begins. */
  #warnWhile(holds: boolean, key: string, fields: object, message: string): void {
    if (holds && !this.#warned.has(key)) {
      this.#parts.logger.warn({ network: this.#parts.network, ...fields }, message);
    }
    if (holds) this.#warned.add(key);
    else this.#warned.delete(key);
  }
}

/**
 * Adds a transaction to the lane with the fewest transactions, of the lanes that have room and can pay for it. Adds it
 * to no lane if there is no such lane.
 */
function assign(
  record: TransactionRecord,
  gas: bigint,
  { maxFeePerGas }: Fees,
  lanes: readonly Lane[],
): void {
  const load = ({ unmined, calls }: Lane) => unmined + calls.length;
  const costWei = gas * maxFeePerGas;
  const [lane] = lanes
    .filter((one) => load(one) < MAX_UNMINED && one.balanceWei >= costWei)
    .sort((a, b) => load(a) - load(b));
  if (lane === undefined) return;
  lane.calls.push({ record, gas });
  lane.balanceWei -= costWei;
}

/** Returns the end of a transaction in Unix seconds. A transaction without an end comes after all others. */
const endOf = ({ validBefore = Number.MAX_SAFE_INTEGER }: TransactionRecord) => validBefore;

function lastNonce({ lastNonces }: OpenTransactions, address: string): number {
  const last = lastNonces.find(({ account }) => account.toLowerCase() === address.toLowerCase());
  return last?.nonce ?? -1;
}
