import type { PaymentPayload, PaymentPayloadV1, PaymentRequirements, SettleResponse } from "@x402/core/types";
import type { Logger } from "pino";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { faultPoint } from "../../core/fault-points.ts";
import type { JobCall } from "../../core/job-call.ts";
import type { PaymentIntent, PaymentKey, PaymentRecord } from "../../core/payment.ts";
import type { PaymentJournal } from "../../store/contract/payment-journal.ts";
import { quotePaid } from "../prices/quote-book.ts";
import { v1NetworkName } from "../wire/v1-networks.ts";
import type { ChainEvidence, Evidence } from "./chain-evidence.ts";
import type { Facilitator, SettlementAnswer } from "./facilitator.ts";
import { outcomeOfKnown, type PaymentOutcome, queueFull } from "./payment-outcome.ts";

export interface SettlementOptions {
  readonly journal: PaymentJournal;
  readonly facilitator: Facilitator;
  readonly evidence: ChainEvidence;
  /** How long a request waits for the chain to show what the facilitator says that it settled. */
  readonly confirmationTimeoutMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

const CONFIRMATION_POLL_MS = 200;

/** An intent that is in the journal, with what its log lines say of it. */
type Journalled = PaymentIntent & {
  readonly callId: number;
  /** Id of the request that is being answered; absent where there is none. */
  readonly requestId?: string;
};

/**
 * Moves the money: the only place that asks a facilitator to settle, and that decides what came of it.
 *
 * A facilitator's yes counts only as far as the chain bears it out, where the chain can be asked; its no never
 * counts as proof that nothing moved.
 */
export class Settlement {
  readonly #options: SettlementOptions;
  /** Payments that are known to be paid, but may not have been written down yet, by fingerprint. */
  readonly #unrecorded = new Map<string, { readonly key: PaymentKey; readonly settlement: SettleResponse }>();

  constructor(options: SettlementOptions) {
    this.#options = options;
  }

  /**
   * Journals the intent, settles, and makes the outcome durable; in this order, so that a crash anywhere leaves a
   * record of what may have moved. Goes on when the client hangs up.
   * @param requestId for the log
   * @throws GatewayError `payment_replay`, `quote_conflict`, `signature_replay`, `queue_full`, `store_unavailable`: nothing was charged
   */
  async settle(intent: PaymentIntent, call: JobCall, requestId?: string): Promise<PaymentOutcome> {
    const { journal, facilitator } = this.#options;
    faultPoint("before-journal");
    const begun = await journal.beginPayment(intent, call);
    switch (begun.kind) {
      case "payment_known":
        return { ...outcomeOfKnown(begun.record, intent), replayed: true };
      case "queue_full":
        throw queueFull();
      case "caller_nonce_used":
        throw new GatewayError(
          "signature_replay",
          "This caller's nonce was used before: sign with a new one.",
        );
      case "receipt_used":
        throw quotePaid();
      case "begun": {
        faultPoint("after-journal");
        const answer = await facilitator.settle(facilitatorRequest(intent));
        faultPoint("after-settle");
        const { receipt, callId } = begun;
        return this.#conclude(
          { ...intent, receipt, callId, ...(requestId === undefined ? {} : { requestId }) },
          answer,
        );
      }
    }
  }

  /**
   * Looks again at a payment that is undecided: at its chain, or, where that cannot be asked, by asking the
   * facilitator to settle until the authorization has run out. A second settlement cannot move money twice: the
   * token lets a nonce be used once.
   */
  async recheck(record: PaymentRecord): Promise<PaymentOutcome> {
    const { evidence, facilitator, clock } = this.#options;
    const paid = this.#unrecorded.get(record.fingerprint);
    if (paid !== undefined) return this.#accept(record, paid.settlement);
    if (evidence.covers(record.key)) return this.#decide(record, await evidence.look(record));
    if (clock() < record.validBefore * 1000) {
      return this.#conclude(record, await facilitator.settle(facilitatorRequest(record)));
    }
    return this.#leaveUnresolved(
      record,
      "the authorization has run out, and no chain could be asked whether it was used",
    );
  }

  /** Forgets what was left to be written down of payments that have been decided since, here or by another replica. */
  async forgetDecided(): Promise<void> {
    for (const [fingerprint, { key }] of this.#unrecorded) {
      const record = await this.#options.journal.findPayment(key);
      if (record?.state === "settled" || record?.state === "failed") this.#unrecorded.delete(fingerprint);
    }
  }

  async #conclude(intent: Journalled, answer: SettlementAnswer): Promise<PaymentOutcome> {
    const { evidence, logger } = this.#options;
    const success = believableSuccess(intent, answer);
    if (success !== undefined && !evidence.isRequired(intent.key)) return this.#accept(intent, success);

    logger.debug({ ...about(intent), answer }, "the chain decides");
    if (!evidence.covers(intent.key)) return this.#undecided(intent, answer.kind);
    return this.#decide(
      intent,
      success === undefined
        ? await evidence.look(intent)
        : await this.#awaitConfirmation(intent, success.transaction),
    );
  }

  /** The facilitator answers when the transaction is mined; the RPC that is asked here may see it a little later. */
  async #awaitConfirmation(intent: Journalled, transaction: string): Promise<Evidence> {
    const { evidence, clock, confirmationTimeoutMs } = this.#options;
    const deadline = clock() + confirmationTimeoutMs;
    for (;;) {
      const found = await evidence.look(intent, transaction);
      if (found.kind !== "open" || clock() >= deadline) return found;
      await new Promise((resolve) => setTimeout(resolve, CONFIRMATION_POLL_MS));
    }
  }

  async #decide(intent: Journalled, evidence: Evidence): Promise<PaymentOutcome> {
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

  async #accept(intent: Journalled, settlement: SettleResponse): Promise<PaymentOutcome> {
    const { journal, logger } = this.#options;
    const { key, fingerprint } = intent;
    try {
      const settled = await journal.settlePayment(key, JSON.stringify(settlement));
      this.#unrecorded.delete(fingerprint);
      faultPoint("after-commit");
      if (settled.kind === "settled") {
        const { symbol, amount } = intent;
        const { transaction } = settlement;
        // Otherwise another replica has decided it, and told of it.
        if (settled.changed)
          logger.info({ ...about(intent), symbol, amount, transaction }, "payment settled");
        return { kind: "accepted", callId: settled.callId, receipt: intent.receipt, settlement };
      }
      logger.error(
        { ...about(intent), settlement },
        "a payment that was closed as failed turned out to be paid",
      );
    } catch (error) {
      this.#unrecorded.set(fingerprint, { key, settlement });
      logger.error(
        { err: error, ...about(intent), settlement },
        "paid, but not written down yet: will be tried again",
      );
    }
    return { kind: "undecided" };
  }

  async #fail(intent: Journalled, reason: string): Promise<PaymentOutcome> {
    const { journal, logger } = this.#options;
    const settlement = failureResponse(intent, reason);
    try {
      const { kind } = await journal.failPayment(intent.key, JSON.stringify(settlement), reason);
      if (kind === "not_open") return await this.#asDecidedElsewhere(intent);
    } catch (error) {
      return this.#notWrittenDown(intent, error);
    }
    logger.info(about(intent), `payment failed: ${reason}`);
    return { kind: "failed", settlement };
  }

  /** Someone else decided it meanwhile: the journal's word counts. */
  async #asDecidedElsewhere(intent: Journalled): Promise<PaymentOutcome> {
    const record = await this.#options.journal.findPayment(intent.key);
    return record === undefined ? { kind: "undecided" } : outcomeOfKnown(record, intent);
  }

  async #leaveUnresolved(intent: Journalled | PaymentRecord, reason: string): Promise<PaymentOutcome> {
    const { journal, logger } = this.#options;
    if ("state" in intent && intent.state === "unresolved") return { kind: "undecided" };
    try {
      const changed = await journal.leavePaymentUnresolved(intent.key, reason);
      if (changed) logger.error(about(intent), `payment unresolved: ${reason}`);
    } catch (error) {
      return this.#notWrittenDown(intent, error);
    }
    return { kind: "undecided" };
  }

  /** Money may have moved by now: whatever the store says, the client must not be told that it was not charged. */
  #notWrittenDown(intent: Journalled, error: unknown): PaymentOutcome {
    this.#options.logger.error(
      { err: error, ...about(intent) },
      "what became of a payment could not be written down: will be tried again",
    );
    return { kind: "undecided" };
  }

  #undecided(intent: Journalled, reason: string): PaymentOutcome {
    this.#options.logger.warn({ ...about(intent), reason }, "payment undecided");
    return { kind: "undecided" };
  }
}

/** By what a line of the log can be found. */
function about({ key, callId, requestId }: Journalled): Record<string, unknown> {
  return { ...(requestId === undefined ? {} : { request: requestId }), callId, payment: key };
}

function facilitatorRequest({ payload, requirements }: PaymentIntent) {
  return {
    payload: JSON.parse(payload) as PaymentPayload | PaymentPayloadV1,
    requirements: JSON.parse(requirements) as PaymentRequirements,
  };
}

/**
 * The settlement, if the facilitator's success can be this payment's: a transaction hash, on the payment's network,
 * from its payer.
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
