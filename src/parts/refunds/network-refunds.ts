import type { Logger } from "pino";
import { type Address, encodeFunctionData, erc20Abi } from "viem";
import { RpcError } from "../../chain/rpc.ts";
import type { AcceptedToken } from "../../config/config.ts";
import { amountText } from "../../core/amounts.ts";
import { BackgroundLoop } from "../../core/background-loop.ts";
import type { BackgroundService } from "../../core/background-service.ts";
import { faultPoint } from "../../core/fault-points.ts";
import { asAuthorized, oneSpelling, type PaymentRecord } from "../../core/payment.ts";
import type { Store } from "../../store/store.ts";
import type { ChainEvidence } from "../../x402/settlement/chain-evidence.ts";
import type { Receipt } from "../transactions/chain.ts";
import type { NetworkSettler } from "../transactions/network-settler.ts";
import { hashesOf } from "../transactions/sent-transactions.ts";
import type { TransactionJournal, TransactionRecord } from "../transactions/store/journal.ts";
import { NO_FUNDS, refundOutcome } from "./refund-outcome.ts";
import type { Refund, RefundLedger } from "./store/ledger.ts";
import { isUnproven, UNPROVEN } from "./store/rules.ts";

interface Parts {
  readonly network: string;
  /** Account that refunds are sent from. */
  readonly account: string;
  readonly settler: NetworkSettler;
  readonly ledger: RefundLedger;
  readonly journal: Pick<TransactionJournal, "findTransactions">;
  readonly store: Pick<Store, "listPayments">;
  readonly evidence: Pick<ChainEvidence, "look" | "covers">;
  /** Tokens of the network. */
  readonly tokens: () => readonly Pick<AcceptedToken, "asset" | "confirmations" | "decimals">[];
  readonly roundMs: number;
  readonly logger: Logger;
}

/** Most refunds of a network that are being sent at a time. */
const MAX_SENDING = 64;
/** Refunds that one round looks at. */
const PAGE = 256;

/**
 * Sends the refunds that are owed on one network, each by one transaction, and finds out what became of it. One
 * process does so at a time: the one whose settler owns the queue. All that it needs after a crash is in the store.
 */
export class NetworkRefunds implements BackgroundService {
  readonly #parts: Parts;
  /** Tokens that were short when a refund in them was last tried. */
  readonly #short = new Set<string>();
  /** Call ID of the last refund that the round before looked at; 0 begins anew. */
  #lookedAt = 0;
  readonly #loop: BackgroundLoop;

  constructor(parts: Parts) {
    const { network, logger, roundMs } = parts;
    this.#parts = parts;
    this.#loop = new BackgroundLoop({
      step: () => this.#step(),
      retryMs: roundMs,
      onTrouble: (error) => logger.warn({ err: error, network }, "could not send refunds; trying again"),
      onRecovery: () => logger.info({ network }, "refunds are sent again"),
    });
  }

  async start(): Promise<void> {
    await this.#parts.settler.start();
    await this.#loop.start();
  }

  async stop(): Promise<void> {
    await this.#loop.stop();
    await this.#parts.settler.stop();
  }

  /** Tokens that refunds wait for. */
  get shortTokens(): string[] {
    return [...this.#short];
  }

  async #step(): Promise<number> {
    const { settler, roundMs } = this.#parts;
    if (settler.isOwner) await this.#round();
    return roundMs;
  }

  async #round(): Promise<void> {
    const { network, ledger } = this.#parts;
    const sending = await ledger.listOpenRefunds(network, { state: "sending", limit: PAGE });
    const left = sending.length === 0 ? [] : await this.#finish(sending);
    const room = MAX_SENDING - left.length;
    if (room <= 0) return;
    // Each round starts where the last one ended, so refunds that wait do not hold up the others.
    const owed = await ledger.listOpenRefunds(network, { state: "owed", limit: room, after: this.#lookedAt });
    this.#lookedAt = owed.length === room ? (owed.at(-1)?.callId ?? 0) : 0;
    if (owed.length > 0) await this.#send(owed, left);
  }

  /** Ends the refunds whose transactions have ended. @returns the others */
  async #finish(sending: readonly Refund[]): Promise<Refund[]> {
    const { settler, journal } = this.#parts;
    const references = sending.flatMap(({ reference }) => reference ?? []);
    const records = await journal.findTransactions(settler.queue, references);
    const byReference = new Map(records.map((record) => [record.reference, record]));
    const { number: head } = await settler.chain.head();
    const left: Refund[] = [];
    for (const refund of sending) {
      const record = byReference.get(refund.reference ?? "");
      if (record === undefined || !(await this.#conclude(refund, record, head))) left.push(refund);
    }
    return left;
  }

  /** @returns true if the refund is no longer being sent */
  async #conclude(refund: Refund, record: TransactionRecord, head: bigint): Promise<boolean> {
    const { ledger, logger } = this.#parts;
    if (record.state === "queued") return false;
    const hasFailed = record.state === "dropped" || record.state === "reverted";
    const end = refundOutcome({
      refund,
      record,
      head,
      confirmations: this.#confirmations(refund),
      receipt: hasFailed ? undefined : await this.#canonicalReceipt(record),
      revert: hasFailed ? await this.#simulate(refund) : undefined,
      hasFunds: record.state !== "dropped" || (await this.#balance(refund.asset)) >= BigInt(refund.amount),
    });
    if (end === undefined) return false;
    faultPoint("refunds/before-end");
    const ended = await ledger.endRefund(refund.callId, record.reference, end);
    if (ended?.state === "refunded") logger.info(this.#fields(ended), "sent a refund");
    if (ended?.state === "refund_failed")
      logger.error(this.#fields(ended), "a refund failed: see jobgate refunds list");
    return ended !== undefined;
  }

  /** Sends as many as the account has tokens for, oldest first. Refunds that are being sent count as spent. */
  async #send(owed: readonly Refund[], sending: readonly Refund[]): Promise<void> {
    const { settler } = this.#parts;
    const free = new Map<string, bigint>();
    for (const { asset } of owed) if (!free.has(asset)) free.set(asset, await this.#balance(asset));
    for (const { asset, amount } of sending) free.set(asset, (free.get(asset) ?? 0n) - BigInt(amount));
    const waiting = new Set<string>();
    const areDue = await Promise.all(owed.map((refund) => this.#isDue(refund)));
    for (const refund of owed.filter((_, i) => areDue[i])) {
      const { asset, amount } = refund;
      const rest = (free.get(asset) ?? 0n) - BigInt(amount);
      if (waiting.has(asset) || rest < 0n) {
        waiting.add(asset);
        // The balance may lack the amount of a refund that is being sent already: then the account is not short.
        if (!sending.some((one) => one.asset === asset)) await this.#noteShort(refund);
      } else {
        free.set(asset, rest);
        this.#short.delete(asset);
        await this.#sendOne(refund);
      }
    }
    settler.poke();
  }

  async #sendOne(refund: Refund): Promise<void> {
    const { settler, ledger } = this.#parts;
    const { callId, attempt, asset } = refund;
    faultPoint("refunds/before-sending");
    const reference = `refund-${callId}-${attempt}`;
    await ledger.sendRefund(callId, attempt, {
      network: settler.queue,
      reference,
      to: asset,
      data: transferData(refund),
    });
    faultPoint("refunds/after-sending");
  }

  /**
   * Checks that the chain shows the payment, so that nobody can draw money from the account with a payment that was not
   * made. The operator can waive that proof. A payment that the chain does not show yet is checked again each round.
   */
  async #isDue(refund: Refund): Promise<boolean> {
    const { evidence, ledger, store, logger } = this.#parts;
    const { callId, decision } = refund;
    const isApproved = decision?.as === "approved";
    if (isApproved && decision.waivesProof === true) return true;
    const { items } = await store.listPayments({ limit: 1, before: callId + 1 });
    const [payment] = items;
    if (payment?.callId !== callId) return false;
    // Closing the payment as paid waived the proof.
    if (isApproved && payment.closed?.as === "paid") return true;
    const found = await evidence.look(asAuthorized(payment), settledIn(payment));
    if (found.kind === "paid") return true;
    const isOpen = found.kind === "open";
    if (isOpen && found.isAlmostNotPaid) return false;
    const reason = `${UNPROVEN}${isOpen ? " yet" : ""}: ${found.reason}`;
    const isNews = !isOpen || !isUnproven(refund);
    if (isOpen && refund.reason === reason) return false;
    if ((await ledger.holdRefund(callId, reason, { forOperator: !isOpen })) && isNews)
      logger.error(
        { ...this.#fields(refund), reason },
        "a refund waits for the operator: see jobgate refunds list",
      );
    return false;
  }

  async #noteShort(refund: Refund): Promise<void> {
    const { ledger, logger, account } = this.#parts;
    if (!this.#short.has(refund.asset))
      logger.error({ ...this.#fields(refund), account }, "refunds wait: send tokens to the refund account");
    this.#short.add(refund.asset);
    if (refund.reason !== NO_FUNDS) await ledger.holdRefund(refund.callId, NO_FUNDS, { forOperator: false });
  }

  /** Finds the receipt of whichever of its bytes was mined, in a block that is part of the chain. */
  async #canonicalReceipt(record: TransactionRecord): Promise<Receipt | undefined> {
    const { chain } = this.#parts.settler;
    if (record.signed === undefined) return undefined;
    const receipt = await chain.receiptOfAny(hashesOf({ ...record, signed: record.signed }));
    if (receipt === undefined) return undefined;
    return (await chain.blockHash(receipt.blockNumber)) === receipt.blockHash ? receipt : undefined;
  }

  /** Runs the transfer without sending it. @returns why it reverts @throws Error when the chain does not answer */
  async #simulate(refund: Refund): Promise<string | undefined> {
    const { settler, account } = this.#parts;
    try {
      await settler.chain.callContract(refund.asset, transferData(refund), account);
      return undefined;
    } catch (error) {
      if (error instanceof RpcError && error.isRevert) return error.details.slice(0, MAX_REASON_LENGTH);
      throw error;
    }
  }

  async #balance(asset: string): Promise<bigint> {
    const { settler, account } = this.#parts;
    return settler.chain.tokenBalance(asset, account);
  }

  #confirmations({ asset }: Refund): bigint {
    const entries = this.#parts.tokens().filter((token) => oneSpelling(token.asset) === oneSpelling(asset));
    return BigInt(Math.max(1, ...entries.map(({ confirmations }) => confirmations)));
  }

  #fields({ callId, payer, amount, symbol, asset, transaction, reason }: Refund) {
    const token = this.#parts.tokens().find((one) => oneSpelling(one.asset) === oneSpelling(asset));
    const { network } = this.#parts;
    return {
      network,
      callId,
      payer,
      amount: amountText(amount, symbol, token?.decimals),
      transaction,
      reason,
    };
  }
}

const MAX_REASON_LENGTH = 300;

function transferData({ payer, amount }: Refund): string {
  return encodeFunctionData({
    abi: erc20Abi,
    functionName: "transfer",
    args: [payer as Address, BigInt(amount)],
  });
}

/** Transaction that the facilitator named. */
function settledIn({ settlement }: PaymentRecord): string | undefined {
  if (settlement === undefined) return undefined;
  const { transaction } = JSON.parse(settlement) as { transaction?: unknown };
  return typeof transaction === "string" && transaction !== "" ? transaction : undefined;
}
