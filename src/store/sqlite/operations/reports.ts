import { type CountedRows, countsOfParts, toTotals } from "../../counted-rows.ts";
import { firstSummedHour, HOUR_MS } from "../../rules/payments.ts";
import type { Database } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";
import { DIALECT } from "./modules.ts";

type CountOf<Table extends "payments" | "calls" | "results"> = CountedRows[Table][number];

/** Digits of the lower part of an amount. Amounts go up to 2^64 - 1, and SQLite's sums end at 2^63 - 1. */
const LOW_DIGITS = 9;

interface RevenueRow {
  bucket: number;
  network: string;
  asset: string;
  symbol: string;
  high: number;
  low: number;
  payments: number;
}

/** Returns a function that counts rows. */
export function countRows(database: Database): (now: number) => CountedRows {
  const countPayments = database.prepare<CountOf<"payments">>(
    "SELECT state, count(*) AS n FROM payments GROUP BY state",
  );
  const countByUse = database.prepare<CountedRows["byUse"][number]>(
    "SELECT state, count(*) AS n FROM payments INDEXED BY payments_by_use WHERE ceiling IS NOT NULL GROUP BY state",
  );
  const countUncharged = database.prepare<{ n: number }>(
    `SELECT (SELECT count(*) FROM payments CROSS JOIN job_calls USING (call_id)
              WHERE payments.state = 'released' AND job_calls.state = 'dead')
          + (SELECT count(*) FROM payments CROSS JOIN results USING (call_id)
              WHERE payments.state = 'released' AND results.state = 'failed') AS n`,
  );
  // A lease that has run out counts as ready, as in a lookup.
  const countCalls = database.prepare<CountOf<"calls">>(
    `SELECT origin, iif(state = 'leased' AND visible_at <= ?, 'ready', state) AS state, count(*) AS n
       FROM job_calls WHERE state <> 'dead' GROUP BY 1, 2
     UNION ALL
     SELECT 'webhook', 'dead', count(*) FROM job_calls INDEXED BY job_calls_dead_groups
      WHERE state = 'dead' AND dead_group < 'x402'
     UNION ALL
     SELECT 'x402', 'dead', count(*) FROM job_calls INDEXED BY job_calls_dead_groups
      WHERE state = 'dead' AND dead_group >= 'x402'`,
  );
  const countResults = database.prepare<CountOf<"results">>(
    "SELECT state, count(*) AS n FROM results GROUP BY state",
  );
  const countPruned = database.prepare<CountedRows["pruned"][number]>("SELECT name, n FROM pruned");
  const selectOldest = database.prepare<{ at: number | null }>(
    `SELECT min(enqueued_at) AS at FROM job_calls
      WHERE state IN ('ready', 'delayed') OR state = 'leased' AND visible_at <= ?`,
  );
  const countsOfModules = countsOfParts(DIALECT).map(({ name, sql }) => ({
    name,
    count: database.prepare(sql),
  }));
  return (now) => ({
    payments: countPayments.all([]),
    byUse: countByUse.all([]),
    uncharged: countUncharged.get([])?.n ?? 0,
    calls: countCalls.all([now]),
    results: countResults.all([]),
    pruned: countPruned.all([]),
    oldestReadyAt: selectOldest.get([now])?.at ?? null,
    ...Object.fromEntries(countsOfModules.map(({ name, count }) => [name, count.all([])])),
  });
}

/** Sums for operators. The totals count rows, so that they show it when the journal does not balance. */
export function reportOperations(database: Database): OperationTable<"totals" | "revenue"> {
  const count = countRows(database);
  const sumRevenue = database.prepare<RevenueRow>(
    `WITH parts AS (
       SELECT hour * ${HOUR_MS} AS at, network, asset, symbol, high, low, payments
         FROM revenue_hours WHERE hour >= ?3
       UNION ALL
       SELECT updated_at, network, asset, symbol,
              CAST(substr(amount, 1, max(0, length(amount) - ${LOW_DIGITS})) AS INTEGER),
              CAST(substr(amount, -${LOW_DIGITS}) AS INTEGER), 1
         FROM payments WHERE state = 'settled' AND updated_at >= ?1 AND updated_at < ?3 * ${HOUR_MS})
     SELECT at / CAST(?2 AS INTEGER) AS bucket, network, asset, symbol, sum(payments) AS payments,
            sum(high) AS high, sum(low) AS low
       FROM parts GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`,
  );
  return {
    totals: (now) => toTotals(count(now)),
    revenue: (_now, { since, bucketMs }) =>
      sumRevenue
        .all([since, bucketMs, firstSummedHour({ since, bucketMs })])
        .map(({ bucket, high, low, ...row }) => ({
          ...row,
          from: bucket * bucketMs,
          amount: exactSum(high, low),
        })),
  };
}

function exactSum(high: number, low: number): bigint {
  return BigInt(high) * 10n ** BigInt(LOW_DIGITS) + BigInt(low);
}
