import { NEVER_FORWARDED } from "../../core/job-call.ts";
import type { Place } from "../mistakes.ts";

/** Largest number of headers in one list. */
const MAX_HEADERS = 32;

/**
 * Returns the reason why only the gateway may see a header, as the end of a sentence; undefined if runners and operators may see it too.
 * @param name lower case
 * @param proofs further headers that authenticate the sender, lower case
 */
export function whyWithheld(name: string, proofs: readonly (string | undefined)[]): string | undefined {
  const never = NEVER_FORWARDED.find(({ names }) => names.test(name));
  if (never !== undefined) return never.reason;
  return proofs.includes(name)
    ? "proves to this endpoint who sends, so whoever sees the job could send it too"
    : undefined;
}

/** @param proofs further headers that authenticate the sender, lower case */
export function checkForwardedHeaders(
  list: readonly (string | undefined)[] | undefined,
  place: Place,
  proofs: readonly (string | undefined)[] = [],
): void {
  if (list === undefined) return;
  if (list.length > MAX_HEADERS) {
    place.report(`has ${list.length} headers; expected at most ${MAX_HEADERS}`);
  }
  const seen = new Set<string>();
  for (const [i, name] of list.entries()) {
    if (name === undefined) continue;
    const reason = whyWithheld(name, proofs);
    if (reason !== undefined) place.at(i).report(`is "${name}", which ${reason}; expected another header`);
    // Programs get metadata in environment variables, in which `-` and `_` are the same.
    const variable = name.replaceAll("-", "_");
    if (seen.has(variable))
      place.at(i).report(`is "${name}", which is listed twice; expected each header once`);
    seen.add(variable);
  }
}
