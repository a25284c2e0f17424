import type { GetCallResponse, GetTotalsResponse } from "./operator-client.ts";

/** What a part says in commands that print what is not its own. */
export interface PartText {
  /** Money for JobCalls that are dead: `owed 2 (0.02 USDC)`. */
  money?(totals: GetTotalsResponse): readonly string[];
  /** What an operator has to look at, with the command that shows it. */
  problems?(totals: GetTotalsResponse): readonly string[];
  /** Tables about one JobCall. */
  call?(details: GetCallResponse): readonly string[];
}

const texts = new Set<PartText>();

/** Adds a part to the commands. To add it again changes nothing. */
export function addPartText(text: PartText): void {
  texts.add(text);
}

/** Returns what the parts say about the totals, in their order. */
export function totalsTexts(totals: GetTotalsResponse, of: "money" | "problems"): string[] {
  return [...texts].flatMap((text) => text[of]?.(totals) ?? []);
}

/** Returns the tables of the parts about one JobCall. */
export function callTexts(details: GetCallResponse): string[] {
  return [...texts].flatMap((text) => text.call?.(details) ?? []);
}
