import { countRows, type NamedRow, toTotals } from "../counted-rows.ts";
import { type Lookup, parameters } from "../list-dialect.ts";
import type { StoreModule } from "../module.ts";
import { firstSummedHour, HOUR_MS } from "../rules/payments.ts";
import type { Revenue, Store, StoreTotals } from "../store.ts";

/** Sums for operators. The totals count rows, so that they show it when the journal does not balance. */
export const REPORTS = {
  forOperator: ["totals", "revenue"],
  lookups: {
    *totals({ dialect, now }): Lookup<StoreTotals> {
      const { values, add } = parameters(dialect);
      const sql = countRows(dialect, dialect.now(add(now())));
      return toTotals((yield { name: "count_rows", sql, values }) as NamedRow[]);
    },

    *revenue({ dialect }, { since, bucketMs }): Lookup<Revenue[]> {
      const { values, add } = parameters(dialect);
      const integer = (value: number) => `CAST(${add(value)} AS bigint)`;
      const [from, bucket] = [integer(since), integer(bucketMs)];
      const hour = integer(firstSummedHour({ since, bucketMs }));
      const { schema } = dialect;
      // Whole hours that were summed, and the payments before them.
      const sql = `WITH parts AS (
          SELECT hour * ${HOUR_MS} AS at, network, asset, symbol, ${dialect.hourAmount} AS amount, payments
            FROM ${schema}revenue_hours WHERE hour >= ${hour}
          UNION ALL
          SELECT updated_at, network, asset, symbol, amount, 1
            FROM ${schema}payments WHERE state = 'settled' AND updated_at >= ${from} AND updated_at < ${hour} * ${HOUR_MS})
        SELECT at / ${bucket} * ${bucket} AS "from", network, asset, symbol, ${dialect.sumOf("amount")} AS amount,
               CAST(sum(payments) AS bigint) AS payments
          FROM parts GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`;
      const rows = (yield { name: "sum_revenue", sql, values }) as (Omit<Revenue, "amount"> & {
        readonly amount: string;
      })[];
      return rows.map((row) => ({ ...row, amount: BigInt(row.amount) }));
    },
  },
} satisfies StoreModule<Pick<Store, "totals" | "revenue">>;
