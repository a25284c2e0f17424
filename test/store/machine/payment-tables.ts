import type { PaymentState } from "../../../src/core/payment.ts";
import { PAYMENT_TRANSITIONS } from "../../../src/store/rules/payments.ts";

/** An event that changes a payment in some state. */
export interface TableRow {
  readonly from: PaymentState;
  readonly event: string;
  readonly to: PaymentState;
  readonly if: "ended" | "watched" | undefined;
  readonly effects: readonly string[];
}

export type PaymentKind = keyof typeof PAYMENT_TRANSITIONS;

/** Returns the machine's table of one kind of payments, row by row. */
export function tableOf(kind: PaymentKind): TableRow[] {
  return Object.entries(PAYMENT_TRANSITIONS[kind]).flatMap(([from, transitions]) =>
    Object.entries(transitions).map(([event, transition]) => ({
      ...(transition as Omit<TableRow, "from" | "event">),
      from: from as PaymentState,
      event,
    })),
  );
}

/** Prints the state diagram of one kind of payments. */
export function printDiagram(kind: PaymentKind): string {
  const events = new Map<string, string[]>();
  for (const { from, event, to } of tableOf(kind)) {
    const arrow = `${from} --> ${to}`;
    if (from !== to) events.set(arrow, [...(events.get(arrow) ?? []), words(event)]);
  }
  const first = Object.keys(PAYMENT_TRANSITIONS[kind])[0];
  const arrows = [...events].map(([arrow, names]) => `    ${arrow}: ${names.join(", ")}`);
  return ["```mermaid", "stateDiagram-v2", `    [*] --> ${first}: begin`, ...arrows, "```"].join("\n");
}

/** Prints the table of one kind of payments. */
export function printTable(kind: PaymentKind): string {
  const rows = tableOf(kind).map(({ from, event, to, if: condition, effects }) => {
    const asked = { ended: "its authorization has ended", watched: "it is watched", always: "" };
    const becomes = from === to ? "" : to;
    return `| ${from} | ${words(event)} | ${asked[condition ?? "always"]} | ${becomes} | ${effects.map(words).join(", ")} |`;
  });
  const head = ["| state | event | if | becomes | and |", "|---|---|---|---|---|"];
  return [...head, ...rows].join("\n").replaceAll("|  |", "| |").replaceAll("|  |", "| |");
}

/** Writes `closeAsPaid` as "close as paid". */
function words(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
