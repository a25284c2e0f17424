import { YOUNG_MS } from "./contract/payment-journal.ts";
import type { ListDialect } from "./list-dialect.ts";

/*
 * SQL of both dialects that counts payments and sums their amounts, for the limits on payments. A deferred payment is
 * open until it is settled or released.
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
