import type { SettleResponse } from "@x402/core/types";
import { GatewayError } from "../../core/errors.ts";
import type { PaymentIntent, PaymentKey, PaymentRecord } from "../../core/payment.ts";

/** Result of a payment, as far as it is known. */
export type PaymentOutcome = (
  | {
      readonly kind: "accepted";
      readonly callId: number;
      readonly payment: PaymentKey;
      readonly receipt: string;
      readonly settlement: SettleResponse;
    }
  | { readonly kind: "failed"; readonly settlement: SettleResponse }
  | { readonly kind: "undecided" }
) & {
  /** Set when an earlier request led to this outcome. */
  readonly replayed?: true;
};

/** The parts of a payment that two requests have in common exactly if they are the same purchase. */
export type PurchaseIdentity = Pick<PaymentIntent, "fingerprint" | "serviceId" | "jobIndex" | "bodyHash">;

/** Returns the outcome of a journalled payment. @throws GatewayError `payment_replay` if it bought something else */
export function outcomeOfKnown(record: PaymentRecord, asked: PurchaseIdentity): PaymentOutcome {
  requireSamePurchase(record, asked);
  if (record.state === "settled" && record.settlement !== undefined) {
    const { callId, key, receipt, settlement } = record;
    return { kind: "accepted", callId, payment: key, receipt, settlement: JSON.parse(settlement) };
  }
  if (record.state === "failed" && record.settlement !== undefined) {
    return { kind: "failed", settlement: JSON.parse(record.settlement) };
  }
  return { kind: "undecided" };
}

/** @throws GatewayError `payment_replay` when one payment is used for two purchases */
export function requireSamePurchase(known: PurchaseIdentity, asked: PurchaseIdentity): void {
  const same =
    known.fingerprint === asked.fingerprint &&
    known.serviceId === asked.serviceId &&
    known.jobIndex === asked.jobIndex &&
    known.bodyHash === asked.bodyHash;
  if (same) return;
  throw new GatewayError("payment_replay", "This payment was used for another job or body: sign a new one.");
}

export function queueFull(): GatewayError {
  return new GatewayError("queue_full", "The queue is full. Nothing was charged: try again later.", {
    headers: { "retry-after": "5" },
  });
}
