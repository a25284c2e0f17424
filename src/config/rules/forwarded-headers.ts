import type { Place } from "../mistakes.ts";

/** Most headers of one list. */
const MAX_HEADERS = 32;

/**
 * Headers that no runner gets, whichever gateway they came through. What is forwarded is stored with the job, shown to
 * the operator, and kept with a dead letter.
 */
const NEVER_FORWARDED: readonly { readonly names: RegExp; readonly reason: string }[] = [
  {
    names: /^(authorization|cookie|proxy(-.*)?|sign-in-with-x|x-(api-key|auth-token|access-token))$/,
    reason: "carries credentials, which would be stored and shown with each job",
  },
  {
    names: /^(payment-.*|x-payment(-.*)?)$/,
    reason: "carries a payment, which only jobgate and its facilitator may see",
  },
  {
    names: /^x-(chain|tangle)-caller(-.*)?$/,
    reason: "proves who the caller is; the runner gets the caller that jobgate has checked as X-CHAIN-CALLER",
  },
  {
    names: /^(method|path|query|param-.*)$/,
    reason: "would have the name of metadata that jobgate makes of a job's route",
  },
];

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
