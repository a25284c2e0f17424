import { amountText } from "../../core/amounts.ts";
import type { MovedElsewhere, PaymentRecord } from "../../core/payment.ts";
import type { PaidEvidence } from "./payment-decision.ts";

/**
 * What is known of money that moved under the authorization of a payment without a charge of this gateway. Another
 * gateway to which the payer showed it, and a facilitator that settled before the job was done, look alike on the chain.
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
