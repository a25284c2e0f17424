import {
  type GetCallResponse,
  type GetTotalsResponse,
  type Payment,
  paymentStateText,
} from "./operator-client.ts";

/** Text that a part adds to the output of commands of the core and of other parts. */
export interface PartText {
  /** Describes the money for dead JobCalls: `owed 2 (0.02 USDC)`. */
  money?(totals: GetTotalsResponse): readonly string[];
  /** Problems that the operator has to solve, each with the command that shows it. */
  problems?(totals: GetTotalsResponse): readonly string[];
  /** States of the part that follow a payment's own state. */
  payment?(payment: Payment): readonly string[];
  /** Tables and sentences about one JobCall. */
  call?(details: GetCallResponse): readonly string[];
}

const texts = new Set<PartText>();

/** Adds a part to the commands. Adding it again changes nothing. */
export function addPartText(text: PartText): void {
  texts.add(text);
}

/** Returns the texts of the parts about the totals, in the order in which the parts were added. */
export function totalsTexts(totals: GetTotalsResponse, of: "money" | "problems"): string[] {
  return [...texts].flatMap((text) => text[of]?.(totals) ?? []);
}

/** Returns a payment's state and what the parts add to it. */
export function statesText(payment: Payment): string {
  return [
    paymentStateText(payment.state),
    ...[...texts].flatMap((text) => text.payment?.(payment) ?? []),
  ].join(", ");
}

/** Returns the texts of the parts about one JobCall. */
export function callTexts(details: GetCallResponse): string[] {
  return [...texts].flatMap((text) => text.call?.(details) ?? []);
}
