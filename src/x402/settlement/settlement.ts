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
  /** Wall clock, which authorizations end by. */
  readonly clock: Clock;
}

/** A nonce that a purchase uses up. */
export interface PurchaseNonce {
  readonly nonce: OneTimeNonce;
  /** Returns the refusal of another purchase that uses it. */
  refusal(): GatewayError;
}

interface SettleOptions {
  /** For the log. */
  readonly requestId?: string | undefined;
  readonly limits?: UndecidedLimits | undefined;
  /** Transaction that paid the payment already: no facilitator is asked to settle it. */
  readonly paidIn?: string | undefined;
  /** Makes the refusal of a payment that a module of the store does not let begin. */
  readonly notTaken?: ((reason: string) => GatewayError) | undefined;
  /** The intent's one-time nonces, with what is said of one that is used up. */
  readonly nonces?: readonly PurchaseNonce[];
}

/** An outcome of a look at the chain. */
export type Rechecked = PaymentOutcome & {
  /** The chain shows just now that asking the facilitator again is of use and safe. */
  readonly mayAskAgain?: true;
  /** A second look that shows the same decides that nothing was paid. */
  readonly needsSecondLook?: true;
};

/** Decided charges that are remembered until a facilitator is asked. */
const MAX_UNASKED = 20_000;
/** Age up to which the funds that a purchase has read count as read at its end: its facilitator may answer late. */
const MAX_FUNDS_AGE_MS = 500;
/** Payments that are remembered while their jobs run. A forgotten one is read from the journal. */
const MAX_RUNNING = 1_000;

/** A payment that began in this process and is charged after its job. */
interface Running {
  readonly record: PaymentRecord;
  /** Monotonic milliseconds; undefined when the funds of its payer were read long before, or could not be read. */
  readonly fundsSeenAt: number | undefined;
}

/** Moves the money: journals payments, has them settled, and decides their outcome. */
export class Settlement {
  readonly #parts: Parts;
  readonly #attempts: SettlementAttempts;
  readonly #recorder: OutcomeRecorder;
  readonly #decided: DecidedPayments;

  /** Charges that were decided here, and that no facilitator was asked for yet, by call ID. */
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
   * `too_many_undecided`, `too_many_open_payments`, `store_unavailable`: nothing was charged, unless its details say
   * that this is not known
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
      "the authorization has expired, and no chain can be asked whether it was used: set the token's rpc_url",
    );
  }

  /**
   * Has the same facilitator settle a payment again that {@link Settlement.recheck} has just found unused. The token takes
   * a nonce once, so an earlier settlement that is on its way and this settlement cannot both move money.
   */
  async askAgain(record: PaymentRecord): Promise<PaymentOutcome> {
    if (!this.#askTimes.mayAskAgain(record) || !(await this.#isDurable(record))) return { kind: "undecided" };
    this.#askTimes.note(record);
    const { logger } = this.#parts;
    logger.info(logFields(record), "the authorization is unused: asking its facilitator to settle again");
    return this.#recorder.decide(record, (await this.#attempts.settleAgain(record)).found);
  }

  /** Tries to decide an undecided payment for a client that sends it again. */
  async retry(record: PaymentRecord): Promise<PaymentOutcome> {
    const isUndecided = record.state === "intent";
    if (!isUndecided || !this.#parts.evidence.covers(record.key) || !this.#askTimes.mayAskAgain(record)) {
      return outcomeOfKnown(record, record);
    }
    const { mayAskAgain, needsSecondLook: _, ...outcome } = await this.recheck(record);
    if (mayAskAgain) return this.askAgain(record);
    // The next look has to wait, however often the client sends.
    if (outcome.kind === "undecided") this.#askTimes.note(record);
    return outcome;
  }

  /** Returns a payment that began in this process, as long as its job runs; undefined when it is not remembered. */
  findRunning(callId: number): Running | undefined {
    return this.#running.get(callId);
  }

  /** Forgets a payment whose job ended without a charge. */
  forgetRunning(callId: number): void {
    this.#running.delete(callId);
  }

  /**
   * Notes a charge that was decided just now: no facilitator can have settled it yet.
   * @param amount the charge, token units
   * @returns the payment as it is now; undefined when it is not remembered
   */
  noteCharge(callId: number, amount: string): PaymentRecord | undefined {
    this.#unasked.set(callId, true);
    const record = this.#running.get(callId)?.record;
    this.#running.delete(callId);
    return record && { ...record, state: "settling", amount };
  }

  /**
   * Settles a charge, or finds out what became of an earlier attempt. Looks at the chain before it asks: an authorization
   * that was shown to another seller, too, may have been used there. Where one process has the store, and has
   * not asked for an exact payment yet, it looks after a refusal: whoever moved the money, it pays for this job.
   */
  async charge(record: PaymentRecord): Promise<Rechecked> {
    const { evidence, clock } = this.#parts;
    const { isShared } = this.#parts.journal;
    const { validBefore, key, callId, charge } = record;
    const recorded = await this.#recorder.recordAgain(record);
    if (recorded !== undefined) return recorded;
    // An exact payment to this seller pays for this job alone, whoever has requested it.
    const isUnasked = this.#unasked.has(callId);
    const isFirst = isPartial(charge) && isUnasked;
    if (evidence.covers(key)) {
      if (charge === "after" && isUnasked && !isShared) return this.#settleCharge(record, false);
      const found = await evidence.look(record);
      // This process knows that it has not requested this charge: another gateway or an eager facilitator moved the money.
      if (found.kind === "paid" && isFirst && !isShared) return this.#failPaid(record, found, "unasked");
      if (!isUnused(found)) return this.#decide(record, found);
    } else if (clock() >= validBefore * 1000) {
      return this.#recorder.leaveUnresolved(
        record,
        "the authorization has expired, and no chain can be asked: set the token's rpc_url",
      );
    }
    if (!isUnasked && !(await this.#isDurable(record))) return { kind: "undecided" };
    return this.#settleCharge(record, isFirst);
  }

  /** Checks a payment that was read, before a facilitator is asked to move its money. */
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

  /** Looks again at a payment that was decided: {@link DecidedPayments.recheck}. */
  recheckDecided(decided: PaymentRecord): Promise<void> {
    return this.#decided.recheck(decided);
  }

  /** Records again what the store refused, and forgets payments that were settled since, here or by another replica. */
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
  return found?.refusal() ?? new Error("a nonce that nobody asked for is used up");
}
