import { MAX_WATCHED } from "./contract/payment-journal.ts";
import type { ListDialect } from "./list-dialect.ts";
import type { SoldPayment } from "./payment-row.ts";

/* SQL of both dialects that finds the watches to end. */

/** Most watches that one call ends. */
export const ENDED_AT_ONCE = 500;

/** Payment whose watch ends, with the columns that decide about its body. */
export type OldWatch = Pick<SoldPayment, "call_id" | "state" | "ceiling">;

/**
 * Selects at most {@link ENDED_AT_ONCE} {@link OldWatch}es: watches that began before a time, and of each kind the oldest
 * watches beyond {@link MAX_WATCHED}. A watch that lasts until its payment is final is not among them.
 * @param before SQL of the time
 */
export function selectOldWatches({ schema }: Pick<ListDialect, "schema">, before: string): string {
  const watches = `SELECT call_id FROM ${schema}watched_payments WHERE NOT is_early`;
  const beyondMost = (isDeferred: boolean) =>
    `SELECT call_id FROM (${watches} AND is_deferred = ${isDeferred}
       ORDER BY since DESC LIMIT ${ENDED_AT_ONCE} OFFSET ${MAX_WATCHED}) AS beyond_most`;
  return `SELECT watch.call_id, payments.state, payments.ceiling
     FROM ${schema}watched_payments AS watch JOIN ${schema}payments USING (call_id)
    WHERE watch.call_id IN (${watches} AND since <= ${before} UNION ${beyondMost(false)} UNION ${beyondMost(true)})
    LIMIT ${ENDED_AT_ONCE}`;
}
