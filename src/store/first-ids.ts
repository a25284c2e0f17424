import { type ListDialect, parameters, type Query } from "./list-dialect.ts";

/** Tables of each list, with the column of their times. */
const TIMES = {
  calls: [
    ["job_calls", "enqueued_at"],
    ["finished_calls", "enqueued_at"],
  ],
  payments: [["payments", "created_at"]],
} as const;

/**
 * Query for the first IDs of requests from two times on, `first` and `second`. IDs rise with time, but a paid call's time is
 * when it was settled: of a few neighbours, the earliest counts.
 */
export function firstIds(
  dialect: ListDialect,
  list: keyof typeof TIMES,
  times: readonly [first: number, second: number],
): Query {
  const { values, add } = parameters(dialect);
  const [first, second] = times.map((time) => `(${firstId(dialect, list, add(time))})`);
  return { sql: `SELECT ${first} AS first, ${second} AS second`, values };
}

/** SQL that halves `size` IDs from `low` on until none is left. */
function firstId({ schema }: ListDialect, list: keyof typeof TIMES, time: string): string {
  const half = "(size + 1) / 2";
  const near = TIMES[list].map(
    ([table, column]) =>
      `SELECT * FROM (SELECT ${column} AS at FROM ${schema}${table} WHERE call_id >= low + ${half} - 1 ORDER BY call_id LIMIT 8) AS ${table}`,
  );
  const earliest = `(SELECT min(at) FROM (${near.join(" UNION ALL ")}) AS near)`;
  const lastIds = TIMES[list].map(([table]) => `SELECT max(call_id) AS id FROM ${schema}${table}`);
  return `
    WITH RECURSIVE search (low, size) AS (
      SELECT CAST(0 AS bigint),
             CAST(COALESCE((SELECT max(id) FROM (${lastIds.join(" UNION ALL ")}) AS ids), -1) + 1 AS bigint)
      UNION ALL
      SELECT CASE WHEN ${earliest} < ${time} THEN low + ${half} ELSE low END, size - ${half}
        FROM search WHERE size > 0)
    SELECT low FROM search WHERE size = 0`;
}
