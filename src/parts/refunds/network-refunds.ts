import type { Logger } from "pino";
import type { AcceptedToken } from "../../config/config.ts";
import { amountText } from "../../core/amounts.ts";
import { BackgroundLoop } from "../../core/background-loop.ts";
import type { BackgroundService } from "../../core/background-service.ts";
import { systemClock } from "../../core/clock.ts";
import { faultPoint } from "../../core/fault-points.ts";
import {
  asAuthorized,
  oneSpelling,
  type PaymentRecord,
  type TransferEnd,
  transactionOf,
} from "../../core/payment.ts";
import type { Store } from "../../store/store.ts";
import type { Holding } from "../../x402/holding.ts";
import type { ChainEvidence } from "../../x402/settlement/chain-evidence.ts";
import type { QueuedTransfer, TransferSender } from "../../x402/transfer-sender.ts";
import type { Refund, RefundLedger } from "./store/ledger.ts";
import { isLost, isUnproven, NO_FUNDS, UNPROVEN } from "./store/rules.ts";

interface Parts {
  readonly network: string;
  readonly sender: TransferSender;
  readonly ledger: RefundLedger;
  readonly store: Pick<Store, "listPayments">;
  readonly evidence: Pick<ChainEvidence, "look">;
  /** Tokens of the network. */
  readonly tokens: () => readonly Pick<AcceptedToken, "asset" | "decimals" | "symbol">[];
  readonly roundMs: number;
  readonly logger: Logger;
}

/** Most refunds of a network that are being sent at a time. */
const MAX_SENDING = 64;
/** Refunds that one round reads. */
const PAGE = 256;

/**
 * Sends the refunds that are owed on one network, each by one transaction, and determines its outcome. One process does
 * so at a time: the process whose sender owns the queue. After a crash, it continues from the store.
 */
export class NetworkRefunds implements BackgroundService {
  readonly #parts: Parts;
  /** Tokens that were short when a refund in them was last tried. */
  readonly #short = new Set<string>();
  /** Balances by token, as they were last read. */
  readonly #held = new Map<string, { readonly amount: bigint; readonly readAt: number }>();
  /** Call ID of the last refund that the previous round read; 0 to begin with the first refund. */
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
    await this.#parts.sender.start();
    await this.#loop.start();
  }

  async stop(): Promise<void> {
    await this.#loop.stop();
    await this.#parts.sender.stop();
  }

  /** Tokens that refunds wait for. */
  get shortTokens(): string[] {
    return [...this.#short];
  }

  /** Tokens of the account, as they were read for the last refund in each. */
  holdings(): Holding[] {
    const { network, sender } = this.#parts;
    return [...this.#held].flatMap(([asset, held]) => {
      const token = this.#tokenOf(asset);
      if (token === undefined) return [];
      const { symbol, decimals } = token;
      const isShort = this.#short.has(asset);
      return { network, account: sender.account, asset, symbol, decimals, isShort, ...held };
    });
  }

  async #step(): Promise<number> {
    const { sender, roundMs } = this.#parts;
    if (sender.isOwner) await this.#round();
    return roundMs;
  }

  async #round(): Promise<void> {
    const { network, ledger } = this.#parts;
    const sending = await ledger.listOpenRefunds(network, { state: "sending", limit: PAGE });
    const left = sending.length === 0 ? [] : await this.#finish(sending);
    const room = MAX_SENDING - left.length;
    if (room <= 0) return;
    // Each round starts where the last round ended, so refunds that wait do not hold up other refunds.
    const owed = await ledger.listOpenRefunds(network, { state: "owed", limit: room, after: this.#lookedAt });
    this.#lookedAt = owed.length === room ? (owed.at(-1)?.callId ?? 0) : 0;
    if (owed.length > 0) await this.#send(owed, left);
  }

  /**
   * Ends the refunds whose transactions have ended.
   * @returns the other refunds
   */
  async #finish(sending: readonly Refund[]): Promise<Refund[]> {
    const sent = sending.map(({ reference = "", ...refund }) => ({
      ...refund,
      reference,
      notMined: refund.decision?.notMined,
    }));
    const ends = await this.#parts.sender.findEnds(sent);
    const left: Refund[] = [];
    for (const [i, refund] of sent.entries()) {
      const end = ends[i];
      if (end === undefined || !(await this.#conclude(refund, end))) left.push(refund);
    }
    return left;
  }

  /** @returns true if the refund is no longer being sent */
  async #conclude(refund: Refund & QueuedTransfer, end: TransferEnd): Promise<boolean> {
    const { ledger, logger } = this.#parts;
    const { callId, reference } = refund;
    if (end.state === "lost" && isLost(refund) && refund.transaction === end.transaction) return false;
    faultPoint("refunds/before-end");
    const ended = await ledger.endRefund(callId, reference, end);
    if (ended?.state === "refunded") logger.info(this.#fields(ended), "sent a refund");
    if (ended?.state === "refund_failed")
      logger.error(this.#fields(ended), "a refund failed: see jobgate refunds list");
    if (ended?.state === "sending") this.#logWaiting(ended);
    return ended !== undefined && ended.state !== "sending";
  }

  /** Sends as many refunds as the account has tokens for, oldest first. Refunds that are being sent count as spent. */
  async #send(owed: readonly Refund[], sending: readonly Refund[]): Promise<void> {
    const { sender } = this.#parts;
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
        // The balance may lack the amount of a refund that is being sent already. The account is not short then.
        if (!sending.some((one) => one.asset === asset)) await this.#noteShort(refund);
      } else {
        free.set(asset, rest);
        this.#short.delete(asset);
        await this.#sendOne(refund);
      }
    }
    sender.poke();
  }

  async #balance(asset: string): Promise<bigint> {
    const amount = await this.#parts.sender.balance(asset);
    this.#held.set(oneSpelling(asset), { amount, readAt: systemClock() });
    return amount;
  }

  async #sendOne(refund: Refund): Promise<void> {
    const { sender, ledger } = this.#parts;
    const { callId, attempt } = refund;
    faultPoint("refunds/before-sending");
    const reference = `refund-${callId}-${attempt}`;
    const transaction = await sender.transactionOf(refund, () => this.#findPayment(callId));
    await ledger.sendRefund(callId, attempt, { network: sender.queue, reference, ...transaction });
    faultPoint("refunds/after-sending");
  }

  /**
   * Checks that the chain shows the payment, so that no buyer can draw money from the account with a payment that was not
   * made. The operator can waive that proof. A payment that the chain does not show yet, or that a fork may still take away, is checked
   * again each round.
   */
  async #isDue(refund: Refund): Promise<boolean> {
    const { evidence, ledger } = this.#parts;
    const { callId, decision } = refund;
    const isApproved = decision?.as === "approved";
    if (isApproved && decision.waivesProof === true) return true;
    const payment = await this.#findPayment(callId);
    if (payment === undefined) return false;
    // Closing the payment as paid waived the proof.
    if (isApproved && payment.closed?.as === "paid") return true;
    const found = await evidence.look(asAuthorized(payment), transactionOf(payment.settlement));
    if (found.kind === "paid") return found.mayBeReplaced === undefined;
    const isOpen = found.kind === "open";
    if (isOpen && found.isAlmostNotPaid) return false;
    const reason = `${UNPROVEN}${isOpen ? " yet" : ""}: ${found.reason}`;
    const isNews = !isOpen || !isUnproven(refund);
    if (isOpen && refund.reason === reason) return false;
    if ((await ledger.holdRefund(callId, reason, { forOperator: !isOpen })) && isNews)
      this.#logWaiting({ ...refund, reason });
    return false;
  }

  #logWaiting(refund: Refund): void {
    this.#parts.logger.error(
      this.#fields(refund),
      "a refund waits for the operator: see jobgate refunds list",
    );
  }

  async #findPayment(callId: number): Promise<PaymentRecord | undefined> {
    const { items } = await this.#parts.store.listPayments({ limit: 1, before: callId + 1 });
    return items.find((payment) => payment.callId === callId);
  }

  async #noteShort(refund: Refund): Promise<void> {
    const { ledger, logger, sender } = this.#parts;
    if (!this.#short.has(refund.asset))
      logger.error(
        { ...this.#fields(refund), account: sender.account },
        "refunds wait: send tokens to the refund account",
      );
    this.#short.add(refund.asset);
    if (refund.reason !== NO_FUNDS) await ledger.holdRefund(refund.callId, NO_FUNDS, { forOperator: false });
  }

  #tokenOf(asset: string) {
    return this.#parts.tokens().find((one) => oneSpelling(one.asset) === oneSpelling(asset));
  }

  #fields({ callId, payer, amount, symbol, asset, transaction, reason }: Refund) {
    const token = this.#tokenOf(asset);
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
