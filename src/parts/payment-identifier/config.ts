import type { Job } from "../../config/config.ts";
import type { EntryKeys } from "../../config/entry-keys.ts";
import { trueOrFalse } from "../../config/value-types.ts";

/** Name of the terms of a job that is sold only with an identifier. */
const REQUIRED = "payment identifier";

/** `require_payment_identifier` of `[[jobs]]` */
export const identifierKeys: EntryKeys<"jobs"> = {
  list: "jobs",
  keys: {
    /** Clients must send an identifier that finds their purchase again, whatever they sign when they try again. */
    requirePaymentIdentifier: trueOrFalse().default(false),
  },
  alternative: "a payment identifier",
  claim({ requirePaymentIdentifier }: { readonly requirePaymentIdentifier?: boolean }) {
    if (!requirePaymentIdentifier) return undefined;
    return { keys: {}, check: () => {}, complete: () => ({ terms: [REQUIRED] }) };
  },
};

/** Reports whether a job is sold only with an identifier. */
export function requiresIdentifier({ terms = [] }: Pick<Job, "terms">): boolean {
  return terms.includes(REQUIRED);
}
