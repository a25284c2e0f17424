import { callStateText, PaymentState } from "../../commands/operator-client.ts";
import { counted, programName } from "../../commands/output.ts";
import { addPartText, type PartText } from "../../commands/part-text.ts";
import { nameIn } from "../../operator/messages.ts";
import { REFUND_STATES, refundStateText } from "./operator-states.ts";

const STATES: Readonly<Record<keyof typeof REFUND_STATES, string>> = {
  owed: "owed",
  sending: "being sent",
  refunded: "sent",
  refund_failed: "failed",
  declined: "declined",
};

/** Refunds in commands that print totals, payments or JobCalls. */
const TEXT: PartText = {
  money: ({ refunds: sums }) =>
    sums.map(({ state, refunds, amountText }) => `${refundStateText(state)} ${refunds} (${amountText})`),

  problems: ({ refunds: sums }) =>
    (["owed", "refund_failed"] as const).flatMap((name) => {
      const count = sums
        .filter(({ state }) => state === REFUND_STATES[name])
        .reduce((sum, { refunds }) => sum + refunds, 0n);
      return count > 0n
        ? `${counted(count, "refund")} ${STATES[name]}: ${programName()} refunds list --state ${name}`
        : [];
    }),

  payment({ refundState }) {
    const name = nameIn(REFUND_STATES, refundState);
    return name === undefined ? [] : [`refund ${STATES[name]}`];
  },

  /** Says how to give the money of a paid call back. Nothing if jobgate gives it back itself, or nothing was paid. */
  call({ call, payment, refund }) {
    if (payment?.state !== PaymentState.SETTLED || refund !== undefined) return [];
    if (call === undefined || callStateText(call.state) !== "done") return [];
    return [
      `jobgate pays back only jobs that failed. To give this money back, send ${payment.amountText} to ${payment.payer}\nfrom a wallet of your own; the books do not have that transfer.`,
    ];
  },
};

export function addTo(): void {
  addPartText(TEXT);
}
