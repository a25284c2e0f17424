import { setTimeout as sleep } from "node:timers/promises";
import type { PaymentPayload, PaymentPayloadV1, PaymentRequirements, SettleResponse } from "@x402/core/types";
import type { Logger } from "pino";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { faultPoint } from "../../core/fault-points.ts";
import type { JobCall } from "../../core/job-call.ts";
import type { PaymentIntent, PaymentKey, PaymentRecord } from "../../core/payment.ts";
import type { PaymentJournal, UndecidedLimits } from "../../store/contract/payment-journal.ts";
import { NO_TELEMETRY, type Telemetry } from "../../telemetry/telemetry.ts";
import { quotePaid } from "../prices/quote-book.ts";
import { v1NetworkName } from "../wire/v1-networks.ts";
import type { ChainEvidence } from "./chain-evidence.ts";
import type { Facilitator, SettlementAnswer } from "./facilitator.ts";
import type { Evidence } from "./payment-decision.ts";
import { outcomeOfKnown, type PaymentOutcome, queueFull } from "./payment-outcome.ts";

interface Parts {
  readonly journal: PaymentJournal;
  readonly facilitator: Facilitator;
  readonly evidence: ChainEvidence;
  /** Longest time that a request waits for the chain to show a settlement that the facilitator claims. */
  readonly confirmationTimeoutMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly telemetry?: Telemetry;
}

const CONFIRMATION_POLL_MS = 200;

/** An intent that is in the journal. */
type JournalledPayment = PaymentIntent & {
  readonly callId: number;
  /** ID of the request that is being answered, for the log; absent when there is none. */
  readonly requestId?: string;
};

/**
 * Moves the money: the only place that asks a facilitator to settle, and that decides the outcome.
 *
 * Where the chain can be asked and is required to confirm, a facilitator's yes counts only if the chain shows the
 * payment. A facilitator's no never proves that nothing moved.
 */
export class Settlement {
  readonly #parts: Parts;
  /** Payments known to be paid that may not be in the journal as settled yet, by fingerprint. */
  readonly #unrecorded = new Map<string, { readonly key: PaymentKey; readonly settlement: SettleResponse }>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Journals the intent, settles, and makes the outcome durable, in this order, so that a crash anywhere leaves a
   * record of money that may have moved. Continues when the client hangs up.
   * @param options `requestId` is for the log
   * @throws GatewayError `payment_replay`, `quote_conflict`, `signature_replay`, `queue_full`, `store_unavailable`:
   * nothing was charged
   */
  async settle(
    intent: PaymentIntent,
    call: JobCall,
    { requestId, limits }: { readonly requestId?: string; readonly limits?: UndecidedLimits } = {},
  ): Promise<PaymentOutcome> {
    const { journal, facilitator } = this.#parts;
    faultPoint("before-journal");
    const begun = await journal.beginPayment(intent, call, ...(limits === undefined ? [] : [limits]));
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
      case "caller_nonce_used":
        throw new GatewayError(
          "signature_replay",
          "This caller's nonce was used before: sign with a new one.",
        );
      case "quote_paid":
        throw quotePaid();
      case "begun": {
        faultPoint("after-journal");
        const answer = await facilitator.settle(facilitatorRequest(intent));
        faultPoint("after-settle");
        const { callId } = begun;
        return this.#conclude(
          { ...intent, callId, ...(requestId === undefined ? {} : { requestId }) },
          answer,
        );
      }
    }
  }

  /**
   * Tries again to decide an undecided payment: from its chain or, if that cannot be asked, by asking the facilitator
   * to settle until the authorization has expired. A second settlement cannot move money twice, because the token
   * accepts a nonce once.
   */
  async recheck(record: PaymentRecord): Promise<PaymentOutcome> {
    const { evidence, facilitator, clock } = this.#parts;
    const paid = this.#unrecorded.get(record.fingerprint);
    if (paid !== undefined) return this.#accept(record, paid.settlement);
    if (evidence.covers(record.key)) return this.#decide(record, await evidence.look(record));
    if (clock() < record.validBefore * 1000) {
      return this.#conclude(record, await facilitator.settle(facilitatorRequest(record)));
    }
    return this.#leaveUnresolved(
      record,
      "the authorization has expired, and no chain can be asked whether it was used: set the token's rpc_url",
    );
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
      await this.#accept(record, successResponse(record, found.transaction));
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
    for (const [fingerprint, { key, settlement }] of this.#unrecorded) {
      const record = await this.#parts.journal.findPayment(key);
      if (record?.state === "failed") await this.#accept(record, settlement);
      if (record?.state === "settled" || record?.state === "failed") this.#unrecorded.delete(fingerprint);
    }
  }

  /** Decides from the facilitator's answer and, where it can be asked, the chain. */
  async #conclude(intent: JournalledPayment, answer: SettlementAnswer): Promise<PaymentOutcome> {
    const { evidence, logger } = this.#parts;
    const success = believableSuccess(intent, answer);
    if (success !== undefined && !evidence.isRequired(intent.key)) return this.#accept(intent, success);

    logger.debug({ ...logFields(intent), answer }, "the chain decides");
    if (!evidence.covers(intent.key)) return this.#undecided(intent, answer.kind);
    const found =
      success === undefined
        ? await evidence.look(intent)
        : await this.#awaitConfirmation(intent, success.transaction);
    if (found.kind !== "open" || found.isAlmostNotPaid !== true) return this.#decide(intent, found);
    await sleep(evidence.secondLookAfterMs);
    return this.#decide(intent, await evidence.look(intent, success?.transaction));
  }

  /** Polls the chain: the facilitator answers when the transaction is mined, and this RPC may see it a little later. */
  async #awaitConfirmation(intent: JournalledPayment, transaction: string): Promise<Evidence> {
    const { evidence, clock, confirmationTimeoutMs } = this.#parts;
    const deadline = clock() + confirmationTimeoutMs;
    for (;;) {
      const found = await evidence.look(intent, transaction);
      const isOpen = found.kind === "open" && found.isAlmostNotPaid !== true;
      if (!isOpen || clock() >= deadline) return found;
      await sleep(CONFIRMATION_POLL_MS);
    }
  }

  async #decide(intent: JournalledPayment, evidence: Evidence): Promise<PaymentOutcome> {
    switch (evidence.kind) {
      case "paid":
        return this.#accept(intent, successResponse(intent, evidence.transaction));
      case "not_paid":
        return this.#fail(intent, evidence.reason);
      case "unknown":
        return this.#leaveUnresolved(intent, evidence.reason);
      case "open":
        return this.#undecided(intent, evidence.reason);
    }
  }

  async #accept(intent: JournalledPayment, settlement: SettleResponse): Promise<PaymentOutcome> {
    const { journal, logger } = this.#parts;
    const { key, fingerprint } = intent;
    try {
      const settled = await journal.settlePayment(key, JSON.stringify(settlement));
      this.#unrecorded.delete(fingerprint);
      faultPoint("after-commit");
      if (settled.kind === "settled") {
        const { symbol, amount } = intent;
        const { transaction } = settlement;
        const fields = { ...logFields(intent), symbol, amount, transaction };
        // Unchanged: another replica settled and logged it.
        if (settled.changed) {
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
        const { callId } = settled;
        return { kind: "accepted", callId, payment: key, receipt: intent.receipt, settlement };
      }
      this.#countContradiction("failed", intent);
      logger.error(
        { ...logFields(intent), settlement },
        "a payment recorded as failed turned out to be paid, and its job is no longer kept: pay the payer back",
      );
    } catch (error) {
      this.#unrecorded.set(fingerprint, { key, settlement });
      logger.error(
        { err: error, ...logFields(intent), settlement },
        "payment is paid but could not be recorded; trying again",
      );
    }
    return { kind: "undecided" };
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
    logger.info(logFields(intent), `payment failed: ${reason}`);
    return { kind: "failed", settlement };
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

/** Fields that identify a payment in logs. */
function logFields({ key, callId, requestId }: JournalledPayment): Record<string, unknown> {
  return { ...(requestId === undefined ? {} : { request: requestId }), callId, payment: key };
}

function facilitatorRequest({ payload, requirements }: PaymentIntent) {
  return {
    payload: JSON.parse(payload) as PaymentPayload | PaymentPayloadV1,
    requirements: JSON.parse(requirements) as PaymentRequirements,
  };
}

/**
 * Returns the settlement if the facilitator's success can belong to this payment: a transaction hash, on the payment's
 * network, from its payer.
 */
function believableSuccess(intent: PaymentIntent, answer: SettlementAnswer): SettleResponse | undefined {
  if (answer.kind !== "success") return undefined;
  const { network, payer } = intent.key;
  const onNetwork = answer.network === network || answer.network === v1NetworkName(network);
  const fromPayer = answer.payer === undefined || answer.payer.toLowerCase() === payer;
  if (!onNetwork || !fromPayer || !/^0x[0-9a-fA-F]{64}$/.test(answer.transaction)) return undefined;
  return successResponse(intent, answer.transaction);
}

function successResponse({ key }: PaymentIntent, transaction: string): SettleResponse {
  return { success: true, payer: key.payer, transaction, network: key.network as SettleResponse["network"] };
}

function failureResponse({ key }: PaymentIntent, errorMessage: string): SettleResponse {
  return {
    success: false,
    errorReason: "settlement_failed",
    errorMessage,
    payer: key.payer,
    transaction: "",
    network: key.network as SettleResponse["network"],
  };
}
