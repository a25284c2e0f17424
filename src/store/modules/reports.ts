import type { JobCallOrigin } from "../../core/job-call.ts";
import { countRows, type NamedRow, toTotals } from "../counted-rows.ts";
import { type Lookup, parameters } from "../list-dialect.ts";
import type { StoreModule } from "../module.ts";
import { firstSummedHour, HOUR_MS } from "../rules/payments.ts";
import type { Revenue, Store, StoreTotals, WaitingJob } from "../store.ts";

/**
 * Sums for operators. The totals count open payments, and JobCalls that have not ended, by their rows. Other payments
 * and JobCalls were counted when they ended. Rows and counts come from different writes, so the totals show when the
 * journal does not balance.
 */
export const REPORTS = {
  forOperator: ["totals", "revenue", "countWaiting"],
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
      const { schema, indexedBy } = dialect;
      // The query adds the sums of whole hours and the payments outside them. Without statistics, SQLite would read all
      // settled payments.
      const sql = `WITH parts AS (
          SELECT hour * ${HOUR_MS} AS at, network, asset, symbol, ${dialect.hourAmount} AS amount, payments
            FROM ${schema}revenue_hours WHERE hour >= ${hour}
          UNION ALL
          SELECT updated_at, network, asset, symbol, amount, 1
            FROM ${schema}payments${indexedBy("payments_settled")}
           WHERE state = 'settled' AND updated_at >= ${from} AND updated_at < ${hour} * ${HOUR_MS})
        SELECT at / ${bucket} * ${bucket} AS "from", network, asset, symbol, ${dialect.sumOf("amount")} AS amount,
               CAST(sum(payments) AS bigint) AS payments
          FROM parts GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`;
      const rows = (yield { name: "sum_revenue", sql, values }) as (Omit<Revenue, "amount"> & {
        readonly amount: string;
      })[];
      return rows.map((row) => ({ ...row, amount: BigInt(row.amount) }));
    },

    *countWaiting({ dialect, now }, { kind, jobIds }): Lookup<WaitingJob[]> {
      if (kind === "only" && jobIds.length === 0) return [];
      const { values, add } = parameters(dialect);
      const { schema, indexedBy } = dialect;
      const time = dialect.now(add(now()));
      const list = jobIds.map((id) => add(String(id))).join();
      const isWanted = list === "" ? "TRUE" : `job_id ${kind === "only" ? "IN" : "NOT IN"} (${list})`;
      const nextId = (after: string) =>
        `SELECT min(job_id) FROM ${schema}job_calls${indexedBy("job_calls_ready_by_job")} WHERE state = 'ready'${after}`;
      const columns = "SELECT origin, service_id, job_calls.job_id AS job_id, enqueued_at FROM";
      // The query steps from job to job in the index, so that it does not read the queues of jobs that runners accept.
      const sql = `WITH RECURSIVE ready(id) AS (
            SELECT (${nextId("")})
             UNION ALL
            SELECT (${nextId(" AND job_id > ready.id")}) FROM ready WHERE id IS NOT NULL),
          wanted AS (SELECT id AS job_id FROM ready WHERE id IS NOT NULL),
          waiting AS (
            ${columns} (SELECT job_id FROM wanted WHERE ${isWanted}) AS wanted
              JOIN ${schema}job_calls${indexedBy("job_calls_ready_by_job")}
                ON job_calls.job_id = wanted.job_id AND state = 'ready'
             UNION ALL
            ${columns} ${schema}job_calls${indexedBy("job_calls_waiting")}
             WHERE state IN ('leased', 'delayed') AND visible_at <= ${time} AND ${isWanted})
        SELECT origin, service_id, job_id, CAST(count(*) AS bigint) AS count, min(enqueued_at) AS oldest_at
          FROM waiting GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3`;
      const rows = (yield { sql, values }) as {
        readonly origin: JobCallOrigin;
        readonly service_id: string;
        readonly job_id: string;
        readonly count: number;
        readonly oldest_at: number;
      }[];
      return rows.map(({ origin, service_id, job_id, count, oldest_at }) => ({
        ...{ origin, serviceId: BigInt(service_id), jobId: BigInt(job_id) },
        ...{ count, oldestAt: oldest_at },
      }));
    },
  },
} satisfies StoreModule<Pick<Store, "totals" | "revenue" | "countWaiting">>;
