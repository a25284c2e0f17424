import { MAX_WATCHED, YOUNG_MS } from "./contract/payment-journal.ts";
import type { ListDialect } from "./list-dialect.ts";
import type { SoldPayment } from "./payment-row.ts";

/*
 * SQL of both dialects that finds the watches to end, and that counts payments and sums their amounts for the limits on
 * payments. A deferred payment is open until it is settled or released.
 */

type Dialect = Pick<ListDialect, "schema" | "indexedBy">;

const IS_OPEN = "state IN ('authorized', 'settling')";

/** SQL condition of undecided payments that are no longer young. @param now SQL of the store's time */
export const isOld = (now: string): string => `state = 'intent' AND created_at <= ${now} - ${YOUNG_MS}`;

/** Counts undecided payments older than {@link YOUNG_MS}. @param now SQL of the store's time */
export const countOld = ({ schema }: Dialect, now: string): string =>
  `SELECT count(*) AS n FROM ${schema}payments WHERE ${isOld(now)}`;

/** Counts unresolved payments whose JobCalls are held. */
export const countUnresolved = ({ schema }: Dialect): string =>
  `SELECT count(*) AS n FROM ${schema}payments WHERE state = 'unresolved' AND ceiling IS NULL`;

/** Counts a payer's open payments and undecided payments older than {@link YOUNG_MS}, up to a limit. */
export function countOfPayer(
  { schema }: Dialect,
  { payer, now, limit }: { readonly payer: string; readonly now: string; readonly limit: string },
): string {
  const select = (condition: string) =>
    `SELECT 1 FROM ${schema}payments WHERE payments.payer = ${payer} AND ${condition}`;
  return `SELECT count(*) AS n FROM (${select(isOld(now))} UNION ALL ${select(IS_OPEN)} LIMIT ${limit}) AS counted`;
}

/**
 * Selects open payments, and payments that were settled since a time.
 * @param columns columns to select
 * @param condition SQL condition of the payers
 */
export function selectOpen(
  { schema, indexedBy }: Dialect,
  {
    columns,
    condition,
    since,
  }: { readonly columns: string; readonly condition: string; readonly since: string },
): string {
  return `SELECT ${columns} FROM ${schema}payments WHERE ${IS_OPEN} AND ${condition}
     UNION ALL SELECT ${columns} FROM ${schema}payments${indexedBy("payments_settled")}
      WHERE state = 'settled' AND updated_at >= ${since} AND ${condition}`;
}

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
