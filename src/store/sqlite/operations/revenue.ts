import type { Revenue, RevenuePeriod } from "../../store.ts";
import type { Database } from "../driver.ts";

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

/** {@link Store.revenue}: sums the amounts in two parts, and so exactly. */
export function revenueOperations(database: Database) {
  const sum = database.prepare<RevenueRow>(
    `SELECT updated_at / CAST(?2 AS INTEGER) AS bucket, network, asset, symbol, count(*) AS payments,
            sum(CAST(substr(amount, 1, max(0, length(amount) - ${LOW_DIGITS})) AS INTEGER)) AS high,
            sum(CAST(substr(amount, -${LOW_DIGITS}) AS INTEGER)) AS low
       FROM payments WHERE state = 'settled' AND updated_at >= ?1
      GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`,
  );
  return {
    revenue({ since, bucketMs }: RevenuePeriod): Revenue[] {
      return sum.all([since, bucketMs]).map(({ bucket, high, low, ...row }) => ({
        ...row,
        from: bucket * bucketMs,
        amount: BigInt(high) * 10n ** BigInt(LOW_DIGITS) + BigInt(low),
      }));
    },
  };
}
