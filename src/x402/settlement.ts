import type { PaymentPayload, PaymentPayloadV1, PaymentRequirements, SettleResponse } from "@x402/core/types";
import type { Logger } from "pino";
import { GatewayError } from "../errors.ts";
import type { JobCall } from "../job-call.ts";
import type { PaymentIntent, PaymentRecord } from "../payment.ts";
import type { PaymentJournal } from "../store/store.ts";
import type { Facilitator, SettlementAnswer } from "./facilitator.ts";
import { v1NetworkName } from "./v1-networks.ts";

export interface SettlementOptions {
  readonly journal: PaymentJournal;
  readonly facilitator: Facilitator;
  readonly logger: Logger;
}

/** What became of a payment, as far as it is known. */
export type PaymentOutcome =
  | {
      readonly kind: "accepted";
      readonly callId: number;
      readonly receipt: string;
      readonly settlement: SettleResponse;
    }
  | { readonly kind: "failed"; readonly settlement: SettleResponse }
  | { readonly kind: "undecided" };

/** Moves the money: the only place that asks a facilitator to settle. */
export class Settlement {
  readonly #options: SettlementOptions;

  constructor(options: SettlementOptions) {
    this.#options = options;
  }

  /**
   * Journals the intent, settles, and makes the outcome durable; in this order, so that a crash anywhere leaves a
   * record of what may have moved. Goes on when the client hangs up.
   * @throws GatewayError `payment_replay`, `queue_full`, `store_unavailable`: then nothing was charged
   */
  async settle(intent: PaymentIntent, call: JobCall): Promise<PaymentOutcome> {
    const { journal, facilitator } = this.#options;
    const begun = await journal.beginPayment(intent, call);
    switch (begun.kind) {
      case "payment_known":
        return outcomeOfKnown(begun.record, intent);
      case "queue_full":
        throw queueFull();
      case "caller_nonce_used":
        throw new GatewayError(
          "signature_replay",
          "This caller's nonce was used before: sign with a new one.",
        );
      case "begun":
        return this.#conclude(intent, await facilitator.settle(facilitatorRequest(intent)));
    }
  }

  async #conclude(intent: PaymentIntent, answer: SettlementAnswer): Promise<PaymentOutcome> {
    const { journal, logger } = this.#options;
    const trusted = believableSuccess(intent, answer);
    if (trusted === undefined) {
      logger.warn({ payment: intent.key, answer }, "settlement undecided");
      return { kind: "undecided" };
    }
    const settled = await journal.settlePayment(intent.key, JSON.stringify(trusted));
    return settled.kind === "settled"
      ? { kind: "accepted", callId: settled.callId, receipt: intent.receipt, settlement: trusted }
      : { kind: "undecided" };
  }
}

/** What a payment that is in the journal already led to. @throws GatewayError `payment_replay` if it bought something else */
export function outcomeOfKnown(
  record: PaymentRecord,
  asked: Pick<PaymentIntent, "fingerprint" | "serviceId" | "jobIndex" | "bodyHash">,
): PaymentOutcome {
  const same =
    record.fingerprint === asked.fingerprint &&
    record.serviceId === asked.serviceId &&
    record.jobIndex === asked.jobIndex &&
    record.bodyHash === asked.bodyHash;
  if (!same) throw paymentReplay();
  if (record.state === "settled" && record.settlement !== undefined) {
    const { callId, receipt, settlement } = record;
    return { kind: "accepted", callId, receipt, settlement: JSON.parse(settlement) };
  }
  if (record.state === "failed" && record.settlement !== undefined) {
    return { kind: "failed", settlement: JSON.parse(record.settlement) };
  }
  return { kind: "undecided" };
}

export function paymentReplay(): GatewayError {
  return new GatewayError("payment_replay", "This payment was used for another job or body: sign a new one.");
}

export function queueFull(): GatewayError {
  return new GatewayError("queue_full", "The queue is full. Nothing was charged: try again later.", {
    headers: { "retry-after": "5" },
  });
}

function facilitatorRequest({ payload, requirements }: PaymentIntent) {
  return {
    payload: JSON.parse(payload) as PaymentPayload | PaymentPayloadV1,
    requirements: JSON.parse(requirements) as PaymentRequirements,
  };
}

/**
 * The settlement as the client gets it, if the facilitator's success can be this payment's: a transaction hash, on
 * the payment's network, from its payer. The payer and network are the intent's own, whatever the answer says.
 */
function believableSuccess({ key }: PaymentIntent, answer: SettlementAnswer): SettleResponse | undefined {
  if (answer.kind !== "success") return undefined;
  const onNetwork = answer.network === key.network || answer.network === v1NetworkName(key.network);
  const fromPayer = answer.payer === undefined || answer.payer.toLowerCase() === key.payer;
  if (!onNetwork || !fromPayer || !/^0x[0-9a-fA-F]{64}$/.test(answer.transaction)) return undefined;
  return {
    success: true,
    payer: key.payer,
    transaction: answer.transaction,
    network: key.network as SettleResponse["network"],
  };
}
