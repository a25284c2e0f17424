import type { DecidedCharge } from "../contract/work-queue.ts";
import type { SoldPayment } from "../payment-row.ts";
import { chargedState } from "../rules/charges.ts";
import { chargeEvent } from "../rules/payments.ts";
import { paymentOf, type Reactions } from "./changes.ts";

/** Payments that are charged after the job: the end of the JobCall decides the charge. */
export const DEFERRED: Reactions = {
  finished({ call, charge, at }, known) {
    const payment = charge === null ? undefined : paymentOf(call, known);
    if (charge === null || payment === undefined) return [];
    return [{ kind: "payment", payment, event: chargeEvent(charge), at }];
  },

  // A dead letter is not charged.
  deadLettered({ call, reason, at }, known) {
    const payment = paymentOf(call, known);
    return payment === undefined
      ? []
      : [{ kind: "payment", payment, event: { kind: "release", reason }, at }];
  },
};

/** Returns the decision that a charge makes. @returns undefined if the job's end has already decided the payment */
export function decidedCharge(payment: SoldPayment | undefined, amount: string): DecidedCharge | undefined {
  if (payment?.state !== "authorized") return undefined;
  const { network, asset, symbol, payer } = payment;
  return { network, asset, symbol, payer, state: chargedState(amount), amount };
}
