import { counted, programName } from "../../commands/output.ts";
import { addPartText, type PartText } from "../../commands/part-text.ts";
import { REFUND_STATES, refundStateText } from "./operator-states.ts";

/** Refunds in the commands that print totals. */
const TEXT: PartText = {
  money: ({ refunds: sums }) =>
    sums.map(({ state, refunds, amountText }) => `${refundStateText(state)} ${refunds} (${amountText})`),

  problems: ({ refunds: sums }) =>
    (["owed", "refund_failed"] as const).flatMap((name) => {
      const count = sums
        .filter(({ state }) => state === REFUND_STATES[name])
        .reduce((sum, { refunds }) => sum + refunds, 0n);
      const text = name === "owed" ? "owed" : "failed";
      return count > 0n
        ? `${counted(count, "refund")} ${text}: ${programName()} refunds list --state ${name}`
        : [];
    }),
};

export function addTo(): void {
  addPartText(TEXT);
}
