import type { PaymentRecord, TransferEnd } from "../../../core/payment.ts";
import type { TransferParts } from "../../../x402/facilitators/own-settlement.ts";
import type { QueuedTransfer, Transfer, TransferSender } from "../../../x402/transfer-sender.ts";
import { Changes } from "../../transactions/changes.ts";
import { Funds } from "../../transactions/funds.ts";
import { settlerGauges } from "../../transactions/settler-gauges.ts";
import type { TransactionJournal, TransactionRecord } from "../../transactions/store/journal.ts";
import { TRANSACTIONS } from "../../transactions/store/module.ts";
import { tokenAccountOf } from "../addresses.ts";
import { ACCOUNT_STATE, MINT_DECIMALS, readAccount } from "../chain.ts";
import type { SolanaKey } from "../key.ts";
import { transferIn } from "../payment.ts";
import { ACCOUNT_BYTES, PROGRAMS, toBase58 } from "../portable/addresses.ts";
import { OwnChain } from "./own-chain.ts";
import { SolanaSender } from "./sender.ts";
import { isLasting, type TransferData, TransferSigner } from "./transfer-signer.ts";

/** Reason of a transfer whose transaction is lost. */
const LOST =
  "the RPC no longer has the blocks that may have its transaction: configure an RPC that has them, or approve another transaction if no block has this one";

/** Sends tokens on one cluster from an account that holds the tokens and pays the fees. */
export class SolanaTransfers implements TransferSender {
  readonly queue: string;
  readonly account: string;
  readonly #chain: OwnChain;
  readonly #journal: TransactionJournal;
  readonly #funds: Funds;
  readonly #signer: TransferSigner;
  readonly #sender: SolanaSender;

  constructor(parts: TransferParts, key: SolanaKey) {
    const { network, queue, owner, minBalanceWei, store, clock, logger } = parts;
    this.queue = queue;
    this.account = key.address;
    this.#chain = new OwnChain(parts);
    this.#journal = store.of(TRANSACTIONS);
    const addresses = [key.address];
    this.#funds = new Funds({ network, chain: this.#chain, addresses, minBalanceWei, clock, logger });
    this.#signer = new TransferSigner(parts, key, this.#chain);
    this.#sender = new SolanaSender({
      ...{ network: queue, owner, clock, logger },
      signer: this.#signer,
      journal: this.#journal,
      locks: store,
      isShared: store.isShared,
      chain: this.#chain,
      changes: new Changes(),
    });
  }

  start(): Promise<void> {
    return this.#sender.start();
  }

  stop(): Promise<void> {
    return this.#sender.stop();
  }

  get isOwner(): boolean {
    return this.#sender.isOwner;
  }

  poke(): void {
    this.#sender.poke();
  }

  balance(mint: string): Promise<bigint> {
    return this.#chain.tokens(this.account, mint);
  }

  async transactionOf(
    { asset: mint, payer: owner, amount }: Transfer,
    findPayment: () => Promise<PaymentRecord | undefined>,
  ) {
    const rpc = await this.#chain.connect();
    const decimals = (await readAccount(rpc, mint))?.data[MINT_DECIMALS];
    if (decimals === undefined) throw new Error(`${mint} is not a mint`);
    const payment = await findPayment();
    const source = payment && transferIn(payment).source;
    const isOpen = source !== undefined && (await this.#canReceive(source, { mint, owner }));
    const destination = isOpen ? source : tokenAccountOf(owner, mint);
    const queued: TransferData = { mint, decimals, amount, owner, destination };
    return { to: destination, data: JSON.stringify(queued) };
  }

  /** Reports whether the account that a payment left still belongs to the payer. */
  async #canReceive(
    account: string,
    { mint, owner }: { readonly mint: string; readonly owner: string },
  ): Promise<boolean> {
    const found = await readAccount(await this.#chain.connect(), account);
    const at = (place: number) => found && toBase58(found.data.subarray(place, place + ACCOUNT_BYTES));
    return (
      found?.owner === PROGRAMS.token &&
      found.data[ACCOUNT_STATE] === 1 &&
      at(0) === mint &&
      at(ACCOUNT_BYTES) === owner
    );
  }

  async findEnds(transfers: readonly QueuedTransfer[]): Promise<readonly (TransferEnd | undefined)[]> {
    const records = await this.#journal.findTransactions(
      this.queue,
      transfers.map(({ reference }) => reference),
    );
    const byReference = new Map(records.map((record) => [record.reference, record]));
    return Promise.all(
      transfers.map(async (transfer) => {
        const record = byReference.get(transfer.reference);
        return record && this.#endOf(transfer, record);
      }),
    );
  }

  /** A finalized transaction without an error has moved the token, because the SPL Token program guarantees it. */
  async #endOf(transfer: QueuedTransfer, record: TransactionRecord): Promise<TransferEnd | undefined> {
    const { asset, amount, notMined } = transfer;
    const { state, mined, signed, reason = "no reason given" } = record;
    const transaction = mined?.hash ?? "";
    switch (state) {
      case "queued":
        return undefined;
      case "sent": {
        if (notMined !== undefined) this.#signer.giveUp(notMined);
        const hash = signed?.hash ?? "";
        return this.#signer.isLost(hash) ? { state: "lost", reason: LOST, transaction: hash } : undefined;
      }
      case "succeeded":
        return {
          state: "sent",
          ...{ transaction, blockNumber: mined?.blockNumber ?? "", account: signed?.account ?? null },
        };
      case "reverted": {
        const error = await this.#signer.simulate(record);
        const why = error === undefined ? "" : `: ${error}`;
        return { state: "failed", reason: `its transaction failed${why}`, transaction };
      }
      case "dropped": {
        if ((await this.balance(asset)) < BigInt(amount)) return { state: "unsigned" };
        const error = await this.#signer.simulate(record);
        if (error === undefined) return { state: "unsigned", reason: `the node refused it: ${reason}` };
        return isLasting(error)
          ? { state: "failed", reason: `the transfer would fail: ${error}` }
          : undefined;
      }
    }
  }

  holdings() {
    return this.#funds.holdings();
  }

  gauges() {
    const balances = this.#funds.lastBalances();
    return settlerGauges({ network: this.queue, balances, unmined: this.#sender.unmined });
  }
}
