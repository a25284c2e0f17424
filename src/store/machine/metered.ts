import type { DecidedCharge } from "../contract/work-queue.ts";
import { chargedState } from "../rules/charges.ts";
import { paymentOf, type Reactions, type SoldPayment } from "./changes.ts";

/** Longest reason of a released payment: runners write the reasons of dead letters. */
const MAX_REASON_LENGTH = 500;

/** Payments by use: the end of the JobCall decides what is charged. */
export const METERED: Reactions = {
  finished({ call, charge, at }, known) {
    const payment = charge === null ? undefined : paymentOf(call, known);
    if (charge === null || payment?.state !== "authorized") return [];
    return [{ kind: "payment", row: charged(payment, charge, at) }];
  },

  // A dead letter costs nothing.
  deadLettered({ call, reason, at }, known) {
    const payment = paymentOf(call, known);
    if (payment?.state !== "authorized") return [];
    const row = { ...charged(payment, "0", at), reason: reason.slice(0, MAX_REASON_LENGTH) };
    return [{ kind: "payment", row }];
  },

  // A facilitator may move money all the same, and so may another gateway to which the payer showed the authorization.
  paymentDecided: ({ payment }) =>
    payment.state === "released" ? [{ kind: "watch", payment, since: payment.updated_at }] : [],
};

/** Charges an open payment by use; without a charge it is released. */
export function charged(payment: SoldPayment, amount: string, now: number): SoldPayment {
  return { ...payment, state: chargedState(amount), amount, updated_at: now };
}

/** Returns what a charge decides. @returns undefined unless the payment is open, by use */
export function decidedCharge(payment: SoldPayment | undefined, amount: string): DecidedCharge | undefined {
  if (payment?.state !== "authorized") return undefined;
  const { network, asset, symbol, payer } = payment;
  return { network, asset, symbol, payer, state: chargedState(amount), amount };
}
