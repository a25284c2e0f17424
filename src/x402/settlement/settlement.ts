import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { faultPoint } from "../../core/fault-points.ts";
import type { JobCall } from "../../core/job-call.ts";
import { isPartial, type OneTimeNonce, type PaymentIntent, type PaymentRecord } from "../../core/payment.ts";
import type { UndecidedLimits } from "../../store/contract/payment-journal.ts";
import { ExtensionRejections } from "../facilitators/facilitator.ts";
import { DecidedPayments, type MOVED, movedBy } from "./decided-payments.ts";

import { OutcomeRecorder, type RecorderParts } from "./outcome-recorder.ts";
import type { Evidence, PaidEvidence } from "./payment-decision.ts";
import { logFields, outcomeOfKnown, type PaymentOutcome, queueFull } from "./payment-outcome.ts";
import { AskTimes, type AttemptParts, isUnused, SettlementAttempts } from "./settlement-attempts.ts";

interface Parts extends AttemptParts, RecorderParts {
  /** Wall clock, on which authorizations expire. */
  readonly clock: Clock;
}

/** A nonce that a purchase uses up. */
export interface PurchaseNonce {
  readonly nonce: OneTimeNonce;
  /** Returns the refusal of another purchase that uses the nonce. */
  refusal(): GatewayError;
}

interface SettleOptions {
  /** For the log. */
  readonly requestId?: string | undefined;
  readonly limits?: UndecidedLimits | undefined;
  /** Transaction that has already paid the payment, so that no settlement is requested. */
  readonly paidIn?: string | undefined;
  /** Makes the refusal of a payment that a module of the store does not let begin. */
  readonly notTaken?: ((reason: string) => GatewayError) | undefined;
  /** The intent's one-time nonces, with the refusals for nonces that are used up. */
  readonly nonces?: readonly PurchaseNonce[];
}

/** An outcome after a recheck. */
export type Rechecked = PaymentOutcome & {
  /** True if the chain shows that requesting settlement again is useful and safe. */
  readonly mayAskAgain?: true;
  /** True if a second observation with the same result decides the payment as not paid. */
  readonly needsSecondLook?: true;
};

/** Largest number of decided charges that are remembered until their settlement is requested. */
const MAX_UNASKED = 20_000;
/**
 * Age up to which the payer's funds, which a purchase has read, are treated as current when the purchase ends. They may
 * be older then, because the facilitator may answer late.
 */
const MAX_FUNDS_AGE_MS = 500;
/** Largest number of payments that are remembered while their jobs run. A forgotten payment is read from the journal. */
const MAX_RUNNING = 1_000;

/** A payment that began in this process and is charged after its job. */
interface Running {
  readonly record: PaymentRecord;
  /** Monotonic milliseconds; undefined if the payer's funds were read too long ago, or could not be read. */
  readonly fundsSeenAt: number | undefined;
}

/** Moves the money: journals payments, requests their settlement, and decides their outcome. */
export class Settlement {
  readonly #parts: Parts;
  readonly #attempts: SettlementAttempts;
  readonly #recorder: OutcomeRecorder;
  readonly #decided: DecidedPayments;

  /** Call IDs of charges that this process decided and has not requested yet. */
  readonly #unasked = boundedCache<number, true>(MAX_UNASKED);

  /** Keyed by call ID. */
  readonly #running = boundedCache<number, Running>(MAX_RUNNING);

  readonly #askTimes: AskTimes;

  readonly #rejections: ExtensionRejections;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#attempts = new SettlementAttempts(parts);
    this.#recorder = new OutcomeRecorder(parts);
    this.#decided = new DecidedPayments(parts, this.#recorder);
    this.#askTimes = new AskTimes(parts);
    this.#rejections = new ExtensionRejections(parts.logger);
  }

  /**
   * Journals the intent, settles, and makes the outcome durable, in this order, so that a crash anywhere leaves a
   * record of money that may have moved. Continues when the client hangs up.
   * @throws GatewayError `payment_replay`, `payment_invalid`, the refusal of a nonce, `queue_full`, `store_full`,
   *   `too_many_undecided`, `too_many_open_payments`, `store_unavailable`: nothing was charged, unless its details leave
   *   that open
   */
  async settle(intent: PaymentIntent, call: JobCall, options: SettleOptions = {}): Promise<PaymentOutcome> {
    faultPoint("before-journal");
    const begun = await this.#begin(intent, call, options);
    switch (begun.kind) {
      case "payment_known":
        return { ...outcomeOfKnown(begun.record, intent), replayed: true };
      case "queue_full":
        throw queueFull();
      case "not_taken":
        throw (
          options.notTaken?.(begun.reason) ??
          new GatewayError("payment_mismatch", `The payment is not taken: ${begun.reason}.`)
        );
      case "too_many_undecided":
        throw new GatewayError(
          "too_many_undecided",
          "Too many earlier payments are undecided. Nothing was charged: try again later.",
          { headers: { "retry-after": "30" } },
        );
      case "too_many_open_payments":
        throw new GatewayError(
          "too_many_open_payments",
          "Too many of this payer's earlier payments are neither settled nor released. Nothing was charged: try again later.",
          { headers: { "retry-after": "30" } },
        );
      case "insufficient_funds":
        throw new GatewayError(
          "payment_invalid",
          "insufficient_funds: the payer's balance or allowance is less than the ceilings of this and the payer's other open payments. Nothing was charged: pay when those are settled.",
        );
      case "nonce_used":
        throw refusalOf(begun.key, options);
      case "begun": {
        faultPoint("after-journal");
        const { callId } = begun;
        const { requestId, paidIn } = options;
        if (intent.settlement !== undefined) {
          const settlement = JSON.parse(intent.settlement);
          const takenAt = this.#parts.clock();
          return this.#recorder.begunSettled(intent, { callId, requestId, settlement, takenAt });
        }
        const payment = { ...intent, callId, ...(requestId === undefined ? {} : { requestId }) };
        if (intent.charge !== "before") {
          const { key, receipt, amount } = intent;
          const { clock, elapsed, stats } = this.#parts;
          const takenAt = clock();
          const times = { createdAt: takenAt, updatedAt: takenAt };
          this.#running.set(callId, {
            record: { ...intent, callId, state: "authorized", ceiling: amount, ...times },
            fundsSeenAt: (options.limits?.fundsAgeMs ?? Infinity) > MAX_FUNDS_AGE_MS ? undefined : elapsed(),
          });
          stats?.count("accepted");
          return { kind: "accepted", callId, payment: key, receipt, takenAt };
        }
        if (paidIn !== undefined)
          return this.#recorder.decide(payment, await this.#parts.evidence.look(payment, paidIn));
        this.#askTimes.note(intent);
        const { found, extensionResponses } = await this.#attempts.settle(payment);
        const outcome = await this.#recorder.decide(payment, found);
        if (extensionResponses === undefined) return outcome;
        this.#rejections.log(intent, extensionResponses);
        return { ...outcome, extensionResponses: extensionResponses.header };
      }
    }
  }

  /** Journals an intent. If the store's outcome is unknown, the reconciler may find the intent in the journal and charge it. */
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
        "It is not known whether the store has this payment. Send the same request again: if it has, the job will run once.",
        { cause, details: { charged: "unknown" }, headers: { "retry-after": "5" } },
      );
    }
  }

  /**
   * Tries again to decide an undecided payment: from its chain or, if the chain cannot be queried, by requesting settlement
   * from its facilitator until the authorization has expired.
   */
  async recheck(record: PaymentRecord): Promise<Rechecked> {
    const { evidence, clock } = this.#parts;
    const recorded = await this.#recorder.recordAgain(record);
    if (recorded !== undefined) return recorded;
    if (evidence.covers(record.key)) {
      const found = await evidence.look(record);
      const outcome = await this.#decide(record, found);
      return isUnused(found) && this.#askTimes.mayAskAgain(record)
        ? { ...outcome, mayAskAgain: true }
        : outcome;
    }
    if (clock() < record.validBefore * 1000) {
      if (!(await this.#isDurable(record))) return { kind: "undecided" };
      return this.#recorder.decide(record, (await this.#attempts.settleAgain(record)).found);
    }
    return this.#recorder.leaveUnresolved(
      record,
      "the authorization has expired, and no chain can show whether it was used: set the token's rpc_url",
    );
  }

  /**
   * Requests settlement from the same facilitator again, for a payment that {@link Settlement.recheck} has just found
   * unused. The token accepts a nonce once, so this settlement and an earlier settlement on its way cannot both move money.
   */
  async askAgain(record: PaymentRecord): Promise<PaymentOutcome> {
    if (!this.#askTimes.mayAskAgain(record) || !(await this.#isDurable(record))) return { kind: "undecided" };
    this.#askTimes.note(record);
    const { logger } = this.#parts;
    logger.info(logFields(record), "the authorization is unused: asking its facilitator to settle again");
    return this.#recorder.decide(record, (await this.#attempts.settleAgain(record)).found);
  }

  /** Tries to decide an undecided payment whose client has sent it again. */
  async retry(record: PaymentRecord): Promise<PaymentOutcome> {
    const isUndecided = record.state === "intent";
    if (!isUndecided || !this.#parts.evidence.covers(record.key) || !this.#askTimes.mayAskAgain(record)) {
      return outcomeOfKnown(record, record);
    }
    const { mayAskAgain, needsSecondLook: _, ...outcome } = await this.recheck(record);
    if (mayAskAgain) return this.askAgain(record);
    // The next check has to wait, however often the client resends.
    if (outcome.kind === "undecided") this.#askTimes.note(record);
    return outcome;
  }

  /** Returns a payment that began in this process, as long as its job runs; undefined if the payment is not remembered. */
  findRunning(callId: number): Running | undefined {
    return this.#running.get(callId);
  }

  /** Forgets a payment whose job ended without a charge. */
  forgetRunning(callId: number): void {
    this.#running.delete(callId);
  }

  /**
   * Records a charge that was just decided, which no facilitator can have settled yet.
   * @param amount the charge, token units
   * @returns the payment in its present state; undefined if it is not remembered
   */
  noteCharge(callId: number, amount: string): PaymentRecord | undefined {
    this.#unasked.set(callId, true);
    const record = this.#running.get(callId)?.record;
    this.#running.delete(callId);
    return record && { ...record, state: "settling", amount };
  }

  /**
   * Settles a charge, or finds the outcome of an earlier attempt. Queries the chain before it requests settlement, because
   * the payer may also have given the authorization to another seller. If this process alone uses the store and has not
   * requested an exact payment yet, it queries the chain only after a refusal, because any transfer to this seller pays for
   * this job.
   */
  async charge(record: PaymentRecord): Promise<Rechecked> {
    const { evidence, clock } = this.#parts;
    const { isShared } = this.#parts.journal;
    const { validBefore, key, callId, charge } = record;
    const recorded = await this.#recorder.recordAgain(record);
    if (recorded !== undefined) return recorded;
    // An exact payment to this seller can only pay for this job, whoever requested it.
    const isUnasked = this.#unasked.has(callId);
    const isFirst = isPartial(charge) && isUnasked;
    if (evidence.covers(key)) {
      if (charge === "after" && isUnasked && !isShared) return this.#settleCharge(record, false);
      const found = await evidence.look(record);
      // This process has certainly not requested the charge, so another gateway or an eager facilitator moved the money.
      if (found.kind === "paid" && isFirst && !isShared) return this.#failPaid(record, found, "unasked");
      if (!isUnused(found)) return this.#decide(record, found);
    } else if (clock() >= validBefore * 1000) {
      return this.#recorder.leaveUnresolved(
        record,
        "the authorization has expired, and no chain can be queried: set the token's rpc_url",
      );
    }
    if (!isUnasked && !(await this.#isDurable(record))) return { kind: "undecided" };
    return this.#settleCharge(record, isFirst);
  }

  /** Checks that the state of a read payment is durable, before its settlement is requested. */
  async #isDurable({ key, state }: PaymentRecord): Promise<boolean> {
    const { journal } = this.#parts;
    return !journal.isShared || journal.confirmPayment(key, state);
  }

  /** @param isFirst true for a deferred payment whose settlement no process can have requested yet */
  async #settleCharge(record: PaymentRecord, isFirst: boolean): Promise<Rechecked> {
    const { isShared } = this.#parts.journal;
    this.#unasked.delete(record.callId);
    faultPoint("before-charge");
    const { found, isRefused } = await this.#attempts.settle(record);
    if (found.kind === "paid" && found.amount !== undefined && isFirst && isRefused && !isShared)
      return this.#failPaid(record, found, "refused");
    return this.#recorder.decide(record, found);
  }

  /** Checks whether the authorization of a payment that is charged `after` its job has been used to pay, as the chain shows it. */
  async mayHaveMoved(record: PaymentRecord): Promise<boolean> {
    const found = await this.#parts.evidence.look(record);
    return found.kind !== "not_paid" && !isUnused(found);
  }

  /** Rechecks a decided payment: {@link DecidedPayments.recheck}. */
  recheckDecided(decided: PaymentRecord): Promise<void> {
    return this.#decided.recheck(decided);
  }

  /** Records outcomes again that the store refused, and forgets payments that any replica has settled since. */
  forgetDecided(): Promise<void> {
    return this.#recorder.forgetDecided();
  }

  #failPaid(record: PaymentRecord, found: PaidEvidence, how: keyof typeof MOVED): Promise<PaymentOutcome> {
    const moved = movedBy(record, found, how);
    return this.#recorder.fail(record, moved.reason, moved);
  }

  async #decide(record: PaymentRecord, found: Evidence): Promise<Rechecked> {
    const outcome = await this.#recorder.decide(record, found);
    return found.kind === "open" && found.isAlmostNotPaid === true
      ? { ...outcome, needsSecondLook: true }
      : outcome;
  }
}

function refusalOf(usedUp: string, { nonces = [] }: SettleOptions): Error {
  const found = nonces.find(({ nonce }) => nonce.key === usedUp);
  return found?.refusal() ?? new Error("a nonce that this payment does not have is used up");
}
