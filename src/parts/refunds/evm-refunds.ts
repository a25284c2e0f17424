import { type Address, encodeFunctionData, erc20Abi } from "viem";
import { RpcError } from "../../chain/rpc.ts";
import type { AcceptedToken } from "../../config/config.ts";
import { oneSpelling, type TransferEnd } from "../../core/payment.ts";
import type { QueuedTransfer, Transfer, TransferSender } from "../../x402/transfer-sender.ts";
import type { Receipt } from "../transactions/chain.ts";
import type { NetworkSettler } from "../transactions/network-settler.ts";
import { hashesOf } from "../transactions/sent-transactions.ts";
import type { TransactionJournal, TransactionRecord } from "../transactions/store/journal.ts";
import { refundOutcome } from "./refund-outcome.ts";

interface Parts {
  /** Address of the settler's only account. */
  readonly account: string;
  readonly settler: NetworkSettler;
  readonly journal: Pick<TransactionJournal, "findTransactions">;
  /** Tokens of the network. */
  readonly tokens: () => readonly Pick<AcceptedToken, "asset" | "confirmations">[];
}

const MAX_REASON_LENGTH = 300;

/** Sends refunds on one EVM chain, each by a transfer of ERC-20. */
export class EvmRefunds implements TransferSender {
  readonly account: string;
  readonly #settler: NetworkSettler;
  readonly #journal: Pick<TransactionJournal, "findTransactions">;
  readonly #tokens: Parts["tokens"];

  constructor({ account, settler, journal, tokens }: Parts) {
    this.account = account;
    this.#settler = settler;
    this.#journal = journal;
    this.#tokens = tokens;
  }

  start(): Promise<void> {
    return this.#settler.start();
  }

  stop(): Promise<void> {
    return this.#settler.stop();
  }

  get queue(): string {
    return this.#settler.queue;
  }

  get isOwner(): boolean {
    return this.#settler.isOwner;
  }

  poke(): void {
    this.#settler.poke();
  }

  balance(asset: string): Promise<bigint> {
    return this.#settler.chain.tokenBalance(asset, this.account);
  }

  async transactionOf(refund: Transfer) {
    return { to: refund.asset, data: transferData(refund) };
  }

  async findEnds(refunds: readonly QueuedTransfer[]): Promise<readonly (TransferEnd | undefined)[]> {
    const references = refunds.map(({ reference }) => reference);
    const records = await this.#journal.findTransactions(this.queue, references);
    const byReference = new Map(records.map((record) => [record.reference, record]));
    const { number: head } = await this.#settler.chain.head();
    const ends: (TransferEnd | undefined)[] = [];
    for (const refund of refunds) {
      const record = byReference.get(refund.reference);
      ends.push(record && (await this.#endOf(refund, record, head)));
    }
    return ends;
  }

  async #endOf(
    refund: QueuedTransfer,
    record: TransactionRecord,
    head: bigint,
  ): Promise<TransferEnd | undefined> {
    if (record.state === "queued") return undefined;
    const hasFailed = record.state === "dropped" || record.state === "reverted";
    return refundOutcome({
      refund,
      record,
      head,
      confirmations: this.#confirmations(refund),
      receipt: hasFailed ? undefined : await this.#canonicalReceipt(record),
      revert: hasFailed ? await this.#simulate(refund) : undefined,
      hasFunds: record.state !== "dropped" || (await this.balance(refund.asset)) >= BigInt(refund.amount),
    });
  }

  /** Finds the receipt of whichever transaction of the record was mined, in a block that is part of the chain. */
  async #canonicalReceipt(record: TransactionRecord): Promise<Receipt | undefined> {
    const { chain } = this.#settler;
    if (record.signed === undefined) return undefined;
    const receipt = await chain.receiptOfAny(hashesOf({ ...record, signed: record.signed }));
    if (receipt === undefined) return undefined;
    return (await chain.blockHash(receipt.blockNumber)) === receipt.blockHash ? receipt : undefined;
  }

  /** Runs the transfer without sending it. @returns why it reverts @throws Error when the chain does not answer */
  async #simulate(refund: Transfer): Promise<string | undefined> {
    try {
      await this.#settler.chain.callContract(refund.asset, transferData(refund), this.account);
      return undefined;
    } catch (error) {
      if (error instanceof RpcError && error.isRevert) return error.details.slice(0, MAX_REASON_LENGTH);
      throw error;
    }
  }

  #confirmations({ asset }: Transfer): bigint {
    const entries = this.#tokens().filter((token) => oneSpelling(token.asset) === oneSpelling(asset));
    return BigInt(Math.max(1, ...entries.map(({ confirmations }) => confirmations)));
  }

  gauges() {
    return this.#settler.gauges();
  }

  holdings() {
    return this.#settler.holdings();
  }
}

function transferData({ payer, amount }: Transfer): string {
  return encodeFunctionData({
    abi: erc20Abi,
    functionName: "transfer",
    args: [payer as Address, BigInt(amount)],
  });
}
