import { NEVER_FORWARDED } from "../../core/job-call.ts";
import type { Place } from "../mistakes.ts";

/** Most headers of one list. */
const MAX_HEADERS = 32;

/** @param proofs further headers that carry proof of who sends, lower case */
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
    const never = NEVER_FORWARDED.find(({ names }) => names.test(name));
    if (never !== undefined) {
      place.at(i).report(`is "${name}", which ${never.reason}; expected another header`);
    } else if (proofs.includes(name)) {
      place
        .at(i)
        .report(
          `is "${name}", which proves to this endpoint who sends, so whoever sees the job could send it too; expected another header`,
        );
    }
    // Programs get metadata in environment variables, in which the two are the same.
    const variable = name.replaceAll("-", "_");
    if (seen.has(variable))
      place.at(i).report(`is "${name}", which is listed twice; expected each header once`);
    seen.add(variable);
  }
}
