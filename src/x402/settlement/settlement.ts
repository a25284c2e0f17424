import type { SettleResponse } from "@x402/core/types";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { faultPoint } from "../../core/fault-points.ts";
import type { JobCall } from "../../core/job-call.ts";
import type { PaymentIntent, PaymentKey, PaymentRecord } from "../../core/payment.ts";
import type { PaymentJournal, UndecidedLimits } from "../../store/contract/payment-journal.ts";
import { NO_TELEMETRY, type Telemetry } from "../../telemetry/telemetry.ts";
import { ExtensionRejections } from "../facilitators/extension-responses.ts";
import { quotePaid } from "../prices/quote-book.ts";
import { AskTimes } from "./ask-times.ts";
import type { Evidence } from "./payment-decision.ts";
import {
  failureResponse,
  type JournalledPayment,
  logFields,
  outcomeOfKnown,
  type PaymentOutcome,
  queueFull,
  successResponse,
} from "./payment-outcome.ts";
import { type AttemptParts, isUnused, SettlementAttempts } from "./settlement-attempts.ts";

interface Parts extends AttemptParts {
  readonly journal: PaymentJournal;
  /** Wall clock, which authorizations end by. */
  readonly clock: Clock;
  readonly telemetry?: Telemetry;
  /** Called once for each payment that becomes settled or authorized here. */
  readonly onAccepted?: () => void;
}

/** A settlement as it is recorded. */
interface Settled {
  readonly response: SettleResponse;
  readonly block?: string | undefined;
  /** Token units that moved, where they are not the charge. */
  readonly amount?: string | undefined;
}

interface SettleOptions {
  /** For the log. */
  readonly requestId?: string;
  readonly limits?: UndecidedLimits;
  /** Transaction that paid the payment already: no facilitator is asked to settle it. */
  readonly paidIn?: string;
}

/** An outcome; `mayAskAgain` when the chain shows just now that asking the facilitator again is of use and safe. */
export type Rechecked = PaymentOutcome & { readonly mayAskAgain?: true };

/** Decided charges that are remembered until a facilitator is asked. */
const MAX_UNASKED = 20_000;

/** Reason of a charge whose authorization paid another gateway of the same seller. */
const PAID_ELSEWHERE = "the authorization paid for another purchase";

/** Moves the money: journals payments, has them settled, and decides their outcome. */
export class Settlement {
  readonly #parts: Parts;
  readonly #attempts: SettlementAttempts;
  /** Payments known to be paid that may not be in the journal as settled yet, by fingerprint. */
  readonly #unrecorded = new Map<string, { readonly key: PaymentKey; readonly settled: Settled }>();

  /** Charges that were decided here, and that no facilitator was asked for yet, by call ID. */
  readonly #unasked = boundedCache<number, true>(MAX_UNASKED);

  readonly #askTimes: AskTimes;

  readonly #rejections: ExtensionRejections;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#attempts = new SettlementAttempts(parts);
    this.#askTimes = new AskTimes({ ...parts, settleTimeoutMs: parts.facilitators.settleTimeoutMs });
    this.#rejections = new ExtensionRejections(parts.logger);
  }

  /**
   * Journals the intent, settles, and makes the outcome durable, in this order, so that a crash anywhere leaves a
   * record of money that may have moved. Continues when the client hangs up.
   * @throws GatewayError `payment_replay`, `payment_invalid`, `quote_conflict`, `signature_replay`, `queue_full`, `store_unavailable`:
   * nothing was charged, unless its details say that this is not known
   */
  async settle(intent: PaymentIntent, call: JobCall, options: SettleOptions = {}): Promise<PaymentOutcome> {
    faultPoint("before-journal");
    const begun = await this.#begin(intent, call, options);
    switch (begun.kind) {
      case "payment_known":
        return { ...outcomeOfKnown(begun.record, intent), replayed: true };
      case "queue_full":
        throw queueFull();
      case "too_many_undecided":
        throw new GatewayError(
          "too_many_undecided",
          "Too many earlier payments are undecided. Nothing was charged: try again later.",
          { headers: { "retry-after": "30" } },
        );
      case "too_many_open_payments":
        throw new GatewayError(
          "too_many_open_payments",
          "Too many of this payer's earlier payments are undecided. Nothing was charged: try again later.",
          { headers: { "retry-after": "30" } },
        );
      case "insufficient_funds":
        throw new GatewayError(
          "payment_invalid",
          "insufficient_funds: the payer's balance or allowance is less than the ceilings of this and the payer's other open payments. Nothing was charged: pay when those are settled.",
        );
      case "caller_nonce_used":
        throw new GatewayError(
          "signature_replay",
          "This caller's nonce was used before: sign with a new one.",
        );
      case "quote_paid":
        throw quotePaid();
      case "begun": {
        faultPoint("after-journal");
        const { callId } = begun;
        if (intent.ceiling !== undefined) {
          const { key, receipt } = intent;
          this.#parts.onAccepted?.();
          return { kind: "accepted", callId, payment: key, receipt, takenAt: this.#parts.clock() };
        }
        const { requestId, paidIn } = options;
        const payment = { ...intent, callId, ...(requestId === undefined ? {} : { requestId }) };
        if (paidIn !== undefined)
          return this.#decide(payment, await this.#parts.evidence.look(payment, paidIn));
        this.#askTimes.note(intent);
        const { found, extensionResponses } = await this.#attempts.settle(payment);
        const outcome = await this.#decide(payment, found);
        if (extensionResponses === undefined) return outcome;
        this.#rejections.log(intent, extensionResponses);
        return { ...outcome, extensionResponses: extensionResponses.header };
      }
    }
  }

  /** Journals an intent. If the store cannot say whether it did, the reconciler may find it there and charge it. */
  async #begin(intent: PaymentIntent, call: JobCall, { requestId: request, limits }: SettleOptions) {
    const { journal, logger } = this.#parts;
    try {
      return await journal.beginPayment(intent, call, ...(limits === undefined ? [] : [limits]));
    } catch (cause) {
      if (cause instanceof GatewayError) throw cause;
      logger.error(
        { err: cause, request, payment: intent.key },
        "it is not known whether a payment was journalled",
      );
      throw new GatewayError(
        "store_unavailable",
        "It is not known whether the store has this payment. Send the very same request again: if it has, the job will run once.",
        { cause, details: { charged: "unknown" }, headers: { "retry-after": "5" } },
      );
    }
  }

  /**
   * Tries again to decide an undecided payment: from its chain or, if that cannot be asked, by asking its facilitator
   * to settle until the authorization has expired.
   */
  async recheck(record: PaymentRecord): Promise<Rechecked> {
    const { evidence, clock } = this.#parts;
    const paid = this.#unrecorded.get(record.fingerprint);
    if (paid !== undefined) return this.#accept(record, paid.settled);
    if (evidence.covers(record.key)) {
      const found = await evidence.look(record);
      const outcome = await this.#decide(record, found);
      return isUnused(found) && this.#askTimes.mayAskAgain(record)
        ? { ...outcome, mayAskAgain: true }
        : outcome;
    }
    if (clock() < record.validBefore * 1000) {
      return this.#decide(record, (await this.#attempts.settleAgain(record)).found);
    }
    return this.#leaveUnresolved(
      record,
      "the authorization has expired, and no chain can be asked whether it was used: set the token's rpc_url",
    );
  }

  /**
   * Has the same facilitator settle a payment again that {@link Settlement.recheck} has just found unused. The token takes
   * a nonce once, so an earlier settlement that is on its way and this settlement cannot both move money.
   */
  async askAgain(record: PaymentRecord): Promise<PaymentOutcome> {
    if (!this.#askTimes.mayAskAgain(record)) return { kind: "undecided" };
    this.#askTimes.note(record);
    const { logger } = this.#parts;
    logger.info(logFields(record), "the authorization is unused: asking its facilitator to settle again");
    return this.#decide(record, (await this.#attempts.settleAgain(record)).found);
  }

  /** Tries to decide an undecided payment for a client that sends it again. */
  async retry(record: PaymentRecord): Promise<PaymentOutcome> {
    const isUndecided = record.state === "intent" && record.ceiling === undefined;
    if (!isUndecided || !this.#parts.evidence.covers(record.key) || !this.#askTimes.mayAskAgain(record)) {
      return outcomeOfKnown(record, record);
    }
    const { mayAskAgain, ...outcome } = await this.recheck(record);
    if (mayAskAgain) return this.askAgain(record);
    // The next look has to wait, however often the client sends.
    if (outcome.kind === "undecided") this.#askTimes.note(record);
    return outcome;
  }

  /** Returns why a payment by use could not be charged its ceiling now; undefined when it could, or it is not known. */
  findShortfall(record: PaymentRecord): Promise<string | undefined> {
    return this.#parts.evidence.findShortfall(record);
  }

  /** Notes a charge that was decided just now, so that nobody can have asked for it before. */
  noteCharge(callId: number): void {
    this.#unasked.set(callId, true);
  }

  /**
   * Settles a charge, or finds out what became of an earlier attempt. Looks at the chain before it asks: an authorization
   * that was shown to another seller, too, may have been used there.
   */
  async charge(record: PaymentRecord): Promise<PaymentOutcome> {
    const { evidence, clock } = this.#parts;
    const { isShared } = this.#parts.journal;
    const { fingerprint, validBefore, key, callId } = record;
    const paid = this.#unrecorded.get(fingerprint);
    if (paid !== undefined) return this.#accept(record, paid.settled);
    const isFirst = this.#unasked.has(callId);
    if (evidence.covers(key)) {
      const found = await evidence.look(record);
      // This process knows that nobody has asked for this charge: it pays for something else.
      if (found.kind === "paid" && isFirst && !isShared) return this.#fail(record, PAID_ELSEWHERE);
      if (!isUnused(found)) return this.#decide(record, found);
    } else if (clock() >= validBefore * 1000) {
      return this.#leaveUnresolved(
        record,
        "the authorization has expired, and no chain can be asked: set the token's rpc_url",
      );
    }
    this.#unasked.delete(callId);
    faultPoint("before-charge");
    const { found, isRefused } = await this.#attempts.settle(record);
    if (found.kind === "paid" && found.amount !== undefined && isFirst && isRefused && !isShared)
      return this.#fail(record, PAID_ELSEWHERE);
    return this.#decide(record, found);
  }

  /**
   * Looks again at a payment that was decided: the chain may have shown another view, and an operator may have erred.
   * One that turns out paid is settled after all.
   */
  async recheckDecided(record: PaymentRecord): Promise<void> {
    const { evidence, journal, logger } = this.#parts;
    if (!evidence.covers(record.key)) return;
    const found = await evidence.look(record);
    if (found.kind === "paid" && record.state === "failed") {
      await this.#accept(record, settledBy(record, found));
    } else if (found.kind === "not_paid" && record.state === "settled") {
      const reason = `the chain shows that it was not paid: ${found.reason}`;
      if (!(await journal.contradictPayment(record.key, reason))) return;
      this.#countContradiction("settled", record);
      logger.error(
        { ...logFields(record), reason: found.reason, closed: record.closed },
        "the chain shows a payment closed as paid as not paid",
      );
    }
  }

  /** Forgets unrecorded payments that were settled since, here or by another replica. */
  async forgetDecided(): Promise<void> {
    for (const [fingerprint, { key, settled }] of this.#unrecorded) {
      const record = await this.#parts.journal.findPayment(key);
      if (record?.state === "failed") await this.#accept(record, settled);
      if (record?.state === "settled" || record?.state === "failed") this.#unrecorded.delete(fingerprint);
    }
  }

  async #decide(intent: JournalledPayment, evidence: Evidence): Promise<PaymentOutcome> {
    switch (evidence.kind) {
      case "paid":
        return this.#accept(intent, settledBy(intent, evidence));
      case "not_paid":
        return this.#fail(intent, evidence.reason);
      case "unknown":
        return this.#leaveUnresolved(intent, evidence.reason);
      case "open":
        return this.#undecided(intent, evidence.reason);
    }
  }

  async #accept(intent: JournalledPayment, { response, block, amount }: Settled): Promise<PaymentOutcome> {
    const { journal, logger } = this.#parts;
    const { key, fingerprint } = intent;
    const settlement = response;
    try {
      const settled = await journal.settlePayment(key, JSON.stringify(settlement), block, amount);
      this.#unrecorded.delete(fingerprint);
      faultPoint("after-commit");
      if (settled.kind === "settled") {
        const { symbol, amount: charge } = intent;
        const { transaction } = settlement;
        const fields = { ...logFields(intent), symbol, amount: amount ?? charge, transaction };
        // Unchanged: another replica settled and logged it.
        if (settled.changed) {
          if (intent.ceiling === undefined) this.#parts.onAccepted?.();
          if (amount !== undefined) this.#noteOtherAmount({ ...fields, charge }, intent);
          const { reason } = settled.record;
          if (reason === undefined) logger.info(fields, "payment settled");
          else {
            this.#countContradiction("failed", intent);
            logger.error(
              { ...fields, reason },
              "a payment recorded as failed turned out to be paid: its job is queued",
            );
          }
        }
        const { callId, record } = settled;
        const { receipt } = intent;
        return { kind: "accepted", callId, payment: key, receipt, settlement, takenAt: record.createdAt };
      }
      this.#countContradiction("failed", intent);
      logger.error(
        { ...logFields(intent), settlement },
        "a payment recorded as failed turned out to be paid, and its job is no longer kept: pay the payer back",
      );
    } catch (error) {
      this.#unrecorded.set(fingerprint, { key, settled: { response, block, amount } });
      logger.error(
        { err: error, ...logFields(intent), settlement },
        "payment is paid but could not be recorded; trying again",
      );
    }
    return { kind: "undecided" };
  }

  /** The facilitator alone chooses the amount, up to what the payer signed. */
  #noteOtherAmount(fields: Record<string, unknown>, { key, symbol }: JournalledPayment): void {
    const { logger, telemetry = NO_TELEMETRY } = this.#parts;
    telemetry.count("jobgate_charges_altered_total", { network: key.network, symbol });
    logger.error(fields, "a facilitator moved another amount than the charge");
  }

  #countContradiction(recorded: "failed" | "settled", { key, symbol }: JournalledPayment): void {
    const { telemetry = NO_TELEMETRY } = this.#parts;
    telemetry.count("jobgate_payments_contradicted_total", { recorded, network: key.network, symbol });
  }

  async #fail(intent: JournalledPayment, reason: string): Promise<PaymentOutcome> {
    const { journal, logger } = this.#parts;
    const settlement = failureResponse(intent, reason);
    try {
      const { kind } = await journal.failPayment(intent.key, JSON.stringify(settlement), reason);
      if (kind === "not_open") return await this.#asDecidedElsewhere(intent);
    } catch (error) {
      return this.#notRecorded(intent, error);
    }
    if (intent.ceiling === undefined) logger.info(logFields(intent), `payment failed: ${reason}`);
    else this.#noteLoss(intent, reason);
    return { kind: "failed", settlement };
  }

  /** The job was done, and its seller gets nothing for it. */
  #noteLoss(intent: JournalledPayment, reason: string): void {
    const { logger, telemetry = NO_TELEMETRY } = this.#parts;
    const { symbol, amount, key } = intent;
    telemetry.count("jobgate_charges_lost_total", { network: key.network, symbol });
    logger.error(
      { ...logFields(intent), symbol, amount },
      `a job was done and could not be charged: ${reason}`,
    );
  }

  /** Another replica decided the payment meanwhile: the journal counts. */
  async #asDecidedElsewhere(intent: JournalledPayment): Promise<PaymentOutcome> {
    const record = await this.#parts.journal.findPayment(intent.key);
    return record === undefined ? { kind: "undecided" } : outcomeOfKnown(record, intent);
  }

  async #leaveUnresolved(intent: JournalledPayment | PaymentRecord, reason: string): Promise<PaymentOutcome> {
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

  /** Money may have moved by now: even if the store refuses, the client must not hear that it was not charged. */
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

function settledBy(intent: JournalledPayment, found: Extract<Evidence, { kind: "paid" }>): Settled {
  const { transaction, blockNumber: block, amount = intent.amount } = found;
  return { response: successResponse({ ...intent, amount }, transaction), block, amount: found.amount };
}
