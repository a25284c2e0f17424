import type { SettleResponse } from "@x402/core/types";
import type { Logger } from "pino";
import { faultPoint } from "../../core/fault-points.ts";
import type { MovedElsewhere, PaymentIntent, PaymentKey, PaymentRecord } from "../../core/payment.ts";
import { NO_TELEMETRY, type Telemetry } from "../../core/telemetry.ts";
import type { PaymentJournal } from "../../store/contract/payment-journal.ts";
import type { X402Stats } from "../stats.ts";
import type { ChainEvidence } from "./chain-evidence.ts";
import type { Evidence } from "./payment-decision.ts";
import {
  failureResponse,
  type JournalledPayment,
  logFields,
  outcomeOfKnown,
  type PaymentOutcome,
  successResponse,
} from "./payment-outcome.ts";

export interface RecorderParts {
  readonly journal: PaymentJournal;
  readonly evidence: ChainEvidence;
  readonly logger: Logger;
  readonly telemetry?: Telemetry;
  /** Counts each payment once that becomes settled or authorized here. */
  readonly stats?: Pick<X402Stats, "count">;
}

/** A settlement to record. */
interface Settled {
  readonly response: SettleResponse;
  readonly block?: string | undefined;
  /** Token units that moved, if they differ from the charge. */
  readonly amount?: string | undefined;
  /** A fork may still replace the block. */
  readonly isEarly?: true | undefined;
}

/** Makes outcomes of payments durable, logs them, and keeps the outcomes that the store could not record. */
export class OutcomeRecorder {
  readonly #parts: RecorderParts;
  /** Payments that are known to be paid but may not be settled in the journal yet, by fingerprint. */
  readonly #unrecorded = new Map<string, { readonly key: PaymentKey; readonly settled: Settled }>();

  constructor(parts: RecorderParts) {
    this.#parts = parts;
  }

  /**
   * Tries again to record a payment that is known to be paid and could not be recorded.
   * @returns undefined when there is no such payment
   */
  async recordAgain(record: PaymentRecord): Promise<PaymentOutcome | undefined> {
    const paid = this.#unrecorded.get(record.fingerprint);
    return paid && this.#accept(record, paid.settled);
  }

  /** Forgets unrecorded payments that were settled since, here or by another replica. */
  async forgetDecided(): Promise<void> {
    for (const [fingerprint, { key, settled }] of this.#unrecorded) {
      const record = await this.#parts.journal.findPayment(key);
      if (record?.state === "failed") await this.#accept(record, settled);
      if (record?.state === "settled" || record?.state === "failed") this.#unrecorded.delete(fingerprint);
    }
  }

  /** Records the outcome that the evidence shows, and returns it. */
  async decide(intent: JournalledPayment, evidence: Evidence): Promise<PaymentOutcome> {
    switch (evidence.kind) {
      case "paid":
        return this.#accept(intent, this.#settledBy(intent, evidence));
      case "not_paid":
        return this.fail(intent, evidence.reason);
      case "unknown":
        return this.leaveUnresolved(intent, evidence.reason);
      case "open":
        return this.#undecided(intent, evidence.reason);
    }
  }

  /** Notes a payment that began settled, and returns the outcome. */
  begunSettled(
    { key, receipt, symbol, amount }: PaymentIntent,
    {
      requestId,
      ...taken
    }: Pick<Extract<PaymentOutcome, { kind: "accepted" }>, "callId" | "settlement" | "takenAt"> & {
      readonly requestId: string | undefined;
    },
  ): PaymentOutcome {
    const { stats, logger } = this.#parts;
    faultPoint("after-commit");
    stats?.count("accepted");
    logger.info(
      { ...logFields({ key, callId: taken.callId, requestId }), symbol, amount },
      "payment settled",
    );
    return { kind: "accepted", payment: key, receipt, ...taken };
  }

  #settledBy(intent: PaymentIntent, found: Extract<Evidence, { kind: "paid" }>): Settled {
    const { transaction, blockNumber: block, amount = intent.amount } = found;
    const response = successResponse(intent, transaction, amount);
    const fields = this.#parts.evidence.fieldsOf(intent);
    return {
      ...{ response: { ...response, ...fields }, block },
      ...{ amount: found.amount, isEarly: found.mayBeReplaced },
    };
  }

  async #accept(intent: JournalledPayment, settled: Settled): Promise<PaymentOutcome> {
    const { journal, logger } = this.#parts;
    const { key, fingerprint } = intent;
    const { response: settlement, block, amount, isEarly } = settled;
    try {
      const recorded = await journal.settlePayment(key, JSON.stringify(settlement), block, amount, isEarly);
      this.#unrecorded.delete(fingerprint);
      faultPoint("after-commit");
      if (recorded.kind === "settled") {
        const { symbol, amount: charge } = intent;
        const { transaction } = settlement;
        const fields = { ...logFields(intent), symbol, amount: amount ?? charge, transaction };
        // If nothing has changed, another replica has settled and logged the payment.
        if (recorded.changed) {
          if (intent.charge === "before") this.#parts.stats?.count("accepted");
          if (amount !== undefined) this.#noteOtherAmount({ ...fields, charge }, intent);
          const { reason } = recorded.record;
          if (reason === undefined) logger.info(fields, "payment settled");
          else {
            this.countContradiction("failed", intent);
            logger.error(
              { ...fields, reason },
              "a payment recorded as failed turned out to be paid: its job is queued",
            );
          }
        }
        const { callId, record } = recorded;
        const { receipt } = intent;
        return { kind: "accepted", callId, payment: key, receipt, settlement, takenAt: record.createdAt };
      }
      this.countContradiction("failed", intent);
      logger.error(
        { ...logFields(intent), settlement },
        "a payment recorded as failed turned out to be paid, and its job is no longer kept: pay the payer back",
      );
    } catch (error) {
      this.#unrecorded.set(fingerprint, { key, settled });
      logger.error(
        { err: error, ...logFields(intent), settlement },
        "payment is paid but could not be recorded; trying again",
      );
    }
    return { kind: "undecided" };
  }

  /** The facilitator alone chooses the amount, up to the signed ceiling. */
  #noteOtherAmount(fields: Record<string, unknown>, { key, symbol }: JournalledPayment): void {
    const { logger, telemetry = NO_TELEMETRY } = this.#parts;
    telemetry.count("jobgate_charges_altered_total", { network: key.network, symbol });
    logger.error(fields, "a facilitator moved another amount than the charge");
  }

  countContradiction(recorded: "failed" | "released" | "settled", { key, symbol }: JournalledPayment): void {
    const { telemetry = NO_TELEMETRY } = this.#parts;
    telemetry.count("jobgate_payments_contradicted_total", { recorded, network: key.network, symbol });
  }

  /** @param moved what the authorization moved without a charge of this gateway */
  async fail(intent: JournalledPayment, reason: string, moved?: MovedElsewhere): Promise<PaymentOutcome> {
    const { journal, logger } = this.#parts;
    const settlement = failureResponse(intent, reason, moved);
    try {
      const { kind } = await journal.failPayment(intent.key, JSON.stringify(settlement), reason);
      if (kind === "not_open") return await this.#asDecidedElsewhere(intent);
    } catch (error) {
      return this.#notRecorded(intent, error);
    }
    if (intent.charge === "before") logger.info(logFields(intent), `payment failed: ${reason}`);
    else this.#noteLoss(intent, reason);
    return { kind: "failed", settlement };
  }

  /** Counts and logs a job that was done and for which its seller gets nothing. */
  #noteLoss(intent: JournalledPayment, reason: string): void {
    const { logger, telemetry = NO_TELEMETRY } = this.#parts;
    const { symbol, amount, key } = intent;
    telemetry.count("jobgate_charges_lost_total", { network: key.network, symbol });
    logger.error(
      { ...logFields(intent), symbol, amount },
      `a job was done and could not be charged: ${reason}`,
    );
  }

  /** Another replica has decided the payment. Its journal entry is authoritative. */
  async #asDecidedElsewhere(intent: JournalledPayment): Promise<PaymentOutcome> {
    const record = await this.#parts.journal.findPayment(intent.key);
    return record === undefined ? { kind: "undecided" } : outcomeOfKnown(record, intent);
  }

  /**
   * Records that the authorization of a payment moved money although the payment was released or failed. One process
   * records it, once.
   */
  async noteMoved(record: PaymentRecord, moved: MovedElsewhere): Promise<void> {
    const { journal, logger } = this.#parts;
    const { key, state, symbol, reason: before } = record;
    const settlement = JSON.stringify(failureResponse(record, moved.reason, moved));
    if (!(await journal.contradictPayment(key, moved.reason, settlement))) return;
    this.countContradiction(state === "failed" ? "failed" : "released", record);
    const { amount, transaction } = moved;
    logger.error(
      { ...logFields(record), state, symbol, amount, transaction, reason: before },
      "an authorization moved money without a charge of this gateway",
    );
  }

  async leaveUnresolved(intent: JournalledPayment | PaymentRecord, reason: string): Promise<PaymentOutcome> {
    const { journal, logger } = this.#parts;
    if ("state" in intent && intent.state === "unresolved") return { kind: "undecided" };
    try {
      const changed = await journal.leavePaymentUnresolved(intent.key, reason);
      if (changed) logger.error(logFields(intent), `payment unresolved: ${reason}`);
    } catch (error) {
      return this.#notRecorded(intent, error);
    }
    return { kind: "undecided" };
  }

  /** Money may have moved by now. Even if the store refuses, the client must not be told that it was not charged. */
  #notRecorded(intent: JournalledPayment, error: unknown): PaymentOutcome {
    this.#parts.logger.error(
      { err: error, ...logFields(intent) },
      "the outcome of a payment could not be recorded; trying again",
    );
    return { kind: "undecided" };
  }

  #undecided(intent: JournalledPayment, reason: string): PaymentOutcome {
    this.#parts.logger.warn({ ...logFields(intent), reason }, "payment undecided");
    return { kind: "undecided" };
  }
}
