import type { PaymentKey } from "../../core/payment.ts";
import type { Input, Outcome } from "../operations.ts";
import { type PaymentRow, toPaymentRecord } from "../payment-row.ts";
import type { Effects } from "./effects.ts";

type Steps = {
  readonly [Name in
    | "settlePayment"
    | "failPayment"
    | "leavePaymentUnresolved"
    | "closePayment"
    | "contradictPayment"]: (now: number, ...input: Input<Name>) => Outcome<Name>;
};

/** Operations that decide a payment. @param find finds the payment as the commit has left it so far */
export function paymentSteps(find: (key: PaymentKey) => PaymentRow | undefined, effects: Effects): Steps {
  return {
    settlePayment(now, key, settlement, blockNumber, amount) {
      const row = find(key);
      if (row === undefined) return { kind: "not_open" };
      const callId = row.call_id;
      if (row.state === "settled")
        return { kind: "settled", callId, changed: false, record: toPaymentRecord(row) };
      const settled = effects.decide(row, { kind: "settle", settlement, blockNumber, amount }, now);
      if (settled === undefined) return { kind: "not_open" };
      return { kind: "settled", callId, changed: true, record: toPaymentRecord(settled) };
    },

    failPayment(now, key, settlement, reason) {
      const failed = effects.decide(find(key), { kind: "fail", settlement, reason }, now);
      return failed === undefined
        ? { kind: "not_open" }
        : { kind: "failed", record: toPaymentRecord(failed) };
    },

    leavePaymentUnresolved(now, key, reason) {
      const left = effects.decide(find(key), { kind: "leaveUnresolved", reason }, now);
      return left && toPaymentRecord(left);
    },

    closePayment(now, key, { as, by, note }) {
      const row = find(key);
      const kind = as === "paid" ? "closeAsPaid" : "closeAsNotPaid";
      const closed = effects.decide(row, { kind, by, note }, now);
      return closed === undefined
        ? { kind: "not_open", record: row && toPaymentRecord(row) }
        : { kind: "closed", record: toPaymentRecord(closed) };
    },

    contradictPayment: (now, key, reason, settlement) =>
      effects.decide(find(key), { kind: "contradict", reason, settlement }, now) !== undefined,
  };
}
