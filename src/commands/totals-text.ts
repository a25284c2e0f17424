import type { GetTotalsResponse } from "./operator-client.ts";

/** What a part says about the totals of its own, in the commands that print totals. */
export interface TotalsText {
  /** Money for JobCalls that are dead: `owed 2 (0.02 USDC)`. */
  money(totals: GetTotalsResponse): readonly string[];
  /** What an operator has to look at, with the command that shows it. */
  problems(totals: GetTotalsResponse): readonly string[];
}

const texts = new Set<TotalsText>();

/** Adds a part to the commands. To add it again changes nothing. */
export function addTotalsText(text: TotalsText): void {
  texts.add(text);
}

/** Returns what the parts say, in their order. */
export function totalsTexts(totals: GetTotalsResponse, of: keyof TotalsText): string[] {
  return [...texts].flatMap((text) => text[of](totals));
}
