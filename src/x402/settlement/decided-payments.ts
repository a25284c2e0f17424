import { amountText } from "../../core/amounts.ts";
import {
  asAuthorized,
  type MovedElsewhere,
  movedElsewhere,
  type PaymentRecord,
  transactionOf,
} from "../../core/payment.ts";
import type { OutcomeRecorder, RecorderParts } from "./outcome-recorder.ts";
import type { PaidEvidence } from "./payment-decision.ts";
import { logFields } from "./payment-outcome.ts";
import type { AttemptParts } from "./settlement-attempts.ts";

type Parts = Pick<AttemptParts, "evidence"> & Pick<RecorderParts, "journal" | "logger">;

/** Compares payments that were decided with what the chain shows later. */
export class DecidedPayments {
  readonly #parts: Parts;
  readonly #recorder: OutcomeRecorder;

  constructor(parts: Parts, recorder: OutcomeRecorder) {
    this.#parts = parts;
    this.#recorder = recorder;
  }

  /**
   * Rechecks a decided payment against the chain, because an RPC node or the operator may have been wrong. Settles the
   * payment if it was paid. A payment whose charge was to come after its job is left unchanged, because its money may have
   * paid for something else.
   */
  async recheck(decided: PaymentRecord): Promise<void> {
    const { evidence, journal, logger } = this.#parts;
    if (!evidence.covers(decided.key)) return;
    if (decided.state === "settled" && decided.closed === undefined) return this.#recheckEarly(decided);
    const record = asAuthorized(decided);
    const found = await evidence.look(record);
    if (found.kind === "paid" && record.charge !== "before" && record.state !== "settled") {
      if (movedElsewhere(record.settlement) !== undefined) return;
      const how = record.state === "released" ? "released" : "failed";
      await this.#recorder.noteMoved(record, movedBy(record, found, how));
    } else if (found.kind === "paid" && record.state === "failed") {
      await this.#recorder.decide(record, found);
    } else if (found.kind === "not_paid" && record.state === "settled") {
      const reason = `the chain shows that it was not paid: ${found.reason}`;
      if (!(await journal.contradictPayment(record.key, reason))) return;
      this.#recorder.countContradiction("settled", record);
      logger.error(
        { ...logFields(record), reason: found.reason, closed: record.closed },
        "a payment was closed as paid, and the chain shows that it was not",
      );
    }
  }

  /**
   * Rechecks a payment that was accepted in a block which a fork could replace. The job stays sold whatever the chain shows,
   * so money that a fork removed causes an alert.
   */
  async #recheckEarly(record: PaymentRecord): Promise<void> {
    const { evidence, journal, logger } = this.#parts;
    const found = await evidence.look(asAuthorized(record), transactionOf(record.settlement));
    if (found.kind === "open" || (found.kind === "paid" && found.mayBeReplaced)) return;
    if (found.kind === "paid") return void (await journal.finalizePayment(record.key, found.blockNumber));
    const reason = `sold before its block was final, and the block did not become final: ${found.reason}`;
    if (!(await journal.contradictPayment(record.key, reason))) return;
    this.#recorder.countContradiction("settled", record);
    logger.error(
      { ...logFields(record), transaction: transactionOf(record.settlement), reason: found.reason },
      "the chain no longer has a payment whose job was sold",
    );
  }
}

/**
 * Texts about money that a payment's authorization moved without a charge by this gateway. On chain, it cannot be seen
 * whether another gateway used the authorization, or a facilitator settled before the job was done.
 */
export const MOVED = {
  /** The charge failed before this gateway requested it. */
  unasked: (paid: string) =>
    `the authorization had already paid ${paid}, before this job's charge; this gateway requested no payment`,
  /** The facilitator refused the charge. */
  refused: (paid: string) =>
    `the authorization paid ${paid}, which is not this job's charge; the facilitator refused to settle the charge`,
  released: (paid: string) => `the authorization paid ${paid}, although this gateway requested no payment`,
  failed: (paid: string) =>
    `the authorization paid ${paid} after the charge was recorded as failed, or for another purchase`,
} as const;

export function movedBy(record: PaymentRecord, found: PaidEvidence, how: keyof typeof MOVED): MovedElsewhere {
  const { symbol, decimals } = record;
  const { transaction, amount = record.amount } = found;
  const paid = `${amountText(amount, symbol, decimals)} in transaction ${transaction}`;
  return { amount, transaction, reason: MOVED[how](paid) };
}
