import { type CountedRows, toTotals } from "../../call-row.ts";
import { firstSummedHour, HOUR_MS } from "../../rules/payments.ts";
import type { Database } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";

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

/** Sums for operators. The totals count rows, so that they show it when the journal does not balance. */
export function reportOperations(database: Database): OperationTable<"totals" | "revenue"> {
  const countPayments = database.prepare<CountOf<"payments">>(
    "SELECT state, count(*) AS n FROM payments GROUP BY state",
  );
  // A lease that has run out counts as ready, as in a lookup.
  const countCalls = database.prepare<CountOf<"calls">>(
    `SELECT origin, iif(state = 'leased' AND visible_at <= ?, 'ready', state) AS state, count(*) AS n
       FROM job_calls GROUP BY 1, 2`,
  );
  const countResults = database.prepare<CountOf<"results">>(
    "SELECT state, count(*) AS n FROM results GROUP BY state",
  );
  const selectOldest = database.prepare<{ at: number | null }>(
    `SELECT min(enqueued_at) AS at FROM job_calls
      WHERE state IN ('ready', 'delayed') OR state = 'leased' AND visible_at <= ?`,
  );
  // Sums the amounts in two parts, and so exactly.
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
    totals: (now) =>
      toTotals({
        payments: countPayments.all([]),
        calls: countCalls.all([now]),
        results: countResults.all([]),
        oldestReadyAt: selectOldest.get([now])?.at ?? null,
      }),
    revenue: (_now, { since, bucketMs }) =>
      sumRevenue
        .all([since, bucketMs, firstSummedHour({ since, bucketMs })])
        .map(({ bucket, high, low, ...row }) => ({
          ...row,
          from: bucket * bucketMs,
          amount: BigInt(high) * 10n ** BigInt(LOW_DIGITS) + BigInt(low),
        })),
  };
}
