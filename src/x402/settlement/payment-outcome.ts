import type { SettleResponse } from "@x402/core/types";
import { GatewayError } from "../../core/errors.ts";
import type { PaymentIntent, PaymentRecord } from "../../core/payment.ts";

/** What became of a payment, as far as it is known. */
export type PaymentOutcome = (
  | {
      readonly kind: "accepted";
      readonly callId: number;
      readonly receipt: string;
      readonly settlement: SettleResponse;
    }
  | { readonly kind: "failed"; readonly settlement: SettleResponse }
  | { readonly kind: "undecided" }
) & {
  /** It is the outcome of an earlier request. */
  readonly replayed?: true;
};

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
