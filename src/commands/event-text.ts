import { EVENT_NAMES, nameIn, statesInEvent } from "../operator/messages.ts";
import type { Names } from "./names.ts";
import { type Event, paymentStateText, timeText } from "./operator-client.ts";

/** Kinds of events as the API names them, with hyphens. */
export const EVENT_KINDS = EVENT_NAMES.map(withHyphens);

/** Time, kind and details of an event, for people. */
export function eventRow({ at, what }: Event, names: Pick<Names, "job">): string[] {
  const [kind, details] = textOf(what, names);
  return [timeText(at), kind, details];
}

/** Kind of an event as the API names it, with hyphens. */
export function kindOf({ what }: Event): string {
  return withHyphens(what.case ?? "");
}

function withHyphens(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

type What = Event["what"];
/** Change in the state of money that a part moves. */
type PartChange = Extract<What, { readonly value: { readonly transaction: string } }>;

function isPartChange(what: What): what is PartChange {
  return what.value !== undefined && "transaction" in what.value;
}

function textOf(what: What, names: Pick<Names, "job">): [kind: string, details: string] {
  if (isPartChange(what)) return changeText(what);
  switch (what.case) {
    case "accepted":
      return ["accepted", `${what.value.origin}, job ${names.job(what.value)}`];
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
    case undefined:
      return ["-", ""];
  }
}

function changeText({ case: event, value }: PartChange): [kind: string, details: string] {
  const { state, amountText, payer, reason, transaction } = value;
  const details = [`${amountText} to ${payer}`, transaction, reason].filter((text) => text !== "");
  const name = nameIn(statesInEvent(event), state) ?? "-";
  const subject = event.replace(/Changed$/, "");
  // The name of a state may begin with the name of what changed.
  const kind = name.startsWith(subject) ? name.replaceAll("_", " ") : `${subject} ${name}`;
  return [kind, details.join("; ")];
}

function ackText({ resultBytes, status }: { readonly resultBytes: bigint; readonly status: number }): string {
  const details = [
    status === 0 ? "" : `status ${status}`,
    resultBytes === 0n ? "" : `result of ${resultBytes} bytes`,
  ];
  return details.filter((text) => text !== "").join(", ");
}
