import type { Finding, StoredRows } from "./contract/inspection.ts";
import { countedKinds } from "./prune-queries.ts";

/** SQL that selects {@link StoredRows}. @param schema prefix of table names: empty, or with a dot at its end */
export function countRows(schema: string): string {
  const counts = [
    ["unfinished calls", "job_calls WHERE state <> 'dead'", "enqueued_at"],
    ["dead letters", "job_calls WHERE state = 'dead'", "dead_at"],
    ["finished calls", "finished_calls", "finished_at"],
    ["results", "results", "finished_at"],
    ["payments", "payments", "created_at"],
    ["undecided payments", "payments WHERE state IN ('intent', 'settling', 'unresolved')", "created_at"],
  ];
  return counts
    .map(
      ([name, from, at]) =>
        `SELECT '${name}' AS name, count(*) AS count, min(${at}) AS oldest FROM ${schema}${from}`,
    )
    .join(" UNION ALL ");
}

/** SQL that selects {@link Finding}s: rows whose parent row is missing, and a journal that does not balance. */
export function findProblems(schema: string): string {
  const without = (table: string, other: string) =>
    `NOT EXISTS (SELECT 1 FROM ${schema}${other} AS other WHERE other.call_id = ${table}.call_id)`;
  const isHeld = "(state IN ('intent', 'unresolved') AND ceiling IS NULL OR state = 'authorized')";
  const problems = [
    ["calls have no body", `job_calls WHERE ${without("job_calls", "job_bodies")}`],
    [
      "bodies belong to no call and no watched payment",
      `job_bodies WHERE ${without("job_bodies", "job_calls")} AND ${without("job_bodies", "watched_payments")}`,
    ],
    ["paid calls have no payment", `job_calls WHERE origin = 'x402' AND ${without("job_calls", "payments")}`],
    ["undecided payments have no call", `payments WHERE ${isHeld} AND ${without("payments", "job_calls")}`],
    ["results belong to no payment", `results WHERE ${without("results", "payments")}`],
    ["calls are unfinished and have a result", `job_calls WHERE NOT ${without("job_calls", "results")}`],
    ["watched payments do not exist", `watched_payments WHERE ${without("watched_payments", "payments")}`],
  ].map(([problem, from]) => `SELECT '${problem}' AS problem, count(*) AS n FROM ${schema}${from}`);
  const pruned = (...names: string[]) =>
    `(SELECT COALESCE(sum(n), 0) FROM ${schema}pruned WHERE name IN (${names.map((name) => `'${name}'`).join()}))`;
  const balance = `SELECT 'paid calls are missing in the journal, or too many' AS problem,
    abs((SELECT count(*) FROM ${schema}payments WHERE state = 'settled' OR ceiling IS NOT NULL)
      + ${pruned("settled", "used_settled", "used_failed", "used_released")}
      - (SELECT count(*) FROM ${schema}job_calls WHERE origin = 'x402' AND state <> 'held')
      - (SELECT count(*) FROM ${schema}results) - ${pruned("done", "dead", "uncharged")}) AS n`;
  return [...problems, balance, wrongCounts(schema)].join(" UNION ALL ");
}

/** SQL that compares the counts of ended entries with the rows, including pruned rows. */
function wrongCounts(schema: string): string {
  const has = (table: string, state: string) =>
    `EXISTS (SELECT 1 FROM ${schema}${table} AS other WHERE other.call_id = payments.call_id AND other.state = '${state}')`;
  const { results, payments } = countedKinds(schema);
  const rows = [
    `SELECT name, CAST(n AS bigint) AS n FROM ${schema}ended`,
    `SELECT name, -n FROM ${schema}pruned`,
    `SELECT 'dead', -n FROM ${schema}pruned WHERE name = 'uncharged'`,
    `SELECT ${payments.countedAs}, -1 FROM ${schema}payments WHERE state IN ('settled', 'failed', 'released')`,
    `SELECT CASE WHEN state = 'succeeded' THEN 'done' ELSE 'dead' END, -1 FROM ${schema}${results.table}`,
    `SELECT 'uncharged', -1 FROM ${schema}payments
      WHERE state = 'released' AND (${has("job_calls", "dead")} OR ${has("results", "failed")})`,
  ].join(" UNION ALL ");
  return `SELECT 'ended payments or calls are counted wrongly' AS problem, COALESCE(sum(abs(n)), 0) AS n
    FROM (SELECT name, sum(n) AS n FROM (${rows}) AS counts GROUP BY name) AS differences`;
}

/** Describes the problems of some rows in sentences. */
export function problemTexts(findings: readonly Finding[]): string[] {
  return findings.flatMap(({ problem, n }) => (Number(n) > 0 ? `${n} ${problem}` : []));
}

/** Converts counts to numbers, because Postgres returns some of them as text. */
export function toStoredRows(rows: readonly StoredRows[]): StoredRows[] {
  return rows.map(({ name, count, oldest }) => ({
    name,
    count: Number(count),
    oldest: oldest === null ? null : Number(oldest),
  }));
}
