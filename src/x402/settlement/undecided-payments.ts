import type { PaymentJournal, UndecidedPayment } from "../../store/contract/payment-journal.ts";

const PAGE = 200;
/** Most payments given at once. */
const MAX_AT_ONCE = 2_000;

/**
 * Goes through the undecided payments of one state, the oldest first: each call goes on where the last one ended, and
 * begins anew after the newest. So none waits for ever behind others that stay undecided.
 */
export function createUndecidedPayments(
  journal: Pick<PaymentJournal, "listUndecided">,
  state: "intent" | "unresolved",
): () => Promise<UndecidedPayment[]> {
  let after: number | undefined;
  return async () => {
    const found: UndecidedPayment[] = [];
    do {
      const from = after === undefined ? {} : { after };
      const page = await journal.listUndecided({ state, limit: PAGE, ...from });
      found.push(...page);
      after = page.length < PAGE ? undefined : page.at(-1)?.callId;
    } while (after !== undefined && found.length < MAX_AT_ONCE);
    return found;
  };
}
