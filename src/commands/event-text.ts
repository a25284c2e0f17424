import { type Event, paymentStateText, refundStateText, timeText } from "./operator-client.ts";

/** Time, kind and details of an event, for people. */
export function eventRow({ at, what }: Event): string[] {
  const [kind, details] = textOf(what);
  return [timeText(at), kind, details];
}

/** Kind of an event as the API names it, with hyphens. */
export function kindOf({ what }: Event): string {
  return (what.case ?? "").replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

function textOf(what: Event["what"]): [kind: string, details: string] {
  switch (what.case) {
    case "accepted":
      return ["accepted", `${what.value.origin}, job ${what.value.serviceId}/${what.value.jobId}`];
    case "delivered": {
      const { attempt, subscriber, leaseExpiresAt } = what.value;
      const lease = leaseExpiresAt === undefined ? "" : `, leased until ${timeText(leaseExpiresAt)}`;
      return ["delivered", `attempt ${attempt} to ${subscriber}${lease}`];
    }
    case "progressed":
      return ["progressed", `${what.value.percent}% ${what.value.text}`];
    case "acked":
      return ["acked", ackText(what.value)];
    case "retried":
      return ["retried", what.value.reason];
    case "deadLettered":
      return ["dead letter", what.value.reason];
    case "dropped":
      return ["dropped", ""];
    case "paymentBegun":
      return ["payment", `${what.value.amountText} from ${what.value.payer}`];
    case "paymentDecided": {
      const { state, reason, amountText, payer } = what.value;
      const details = [amountText && `${amountText} from ${payer}`, reason];
      return [`payment ${paymentStateText(state)}`, details.filter((text) => text !== "").join(": ")];
    }
    case "refundChanged": {
      const { state, amountText, payer, reason, transaction } = what.value;
      const details = [`${amountText} to ${payer}`, transaction, reason].filter((text) => text !== "");
      return [`refund ${refundStateText(state)}`, details.join("; ")];
    }
    case undefined:
      return ["-", ""];
  }
}

function ackText({ resultBytes, status }: { readonly resultBytes: bigint; readonly status: number }): string {
  const details = [
    status === 0 ? "" : `status ${status}`,
    resultBytes === 0n ? "" : `result of ${resultBytes} bytes`,
  ];
  return details.filter((text) => text !== "").join(", ");
}
