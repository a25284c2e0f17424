import { type CountedRows, countsOfParts } from "../../store/counted-rows.ts";
import { HOUR_MS } from "../../store/rules/payments.ts";
import type { Revenue } from "../../store/store.ts";
import { LIST_DIALECT, NOW, statement } from "./sql.ts";

/** Counts of everything. One statement, and so one snapshot, in which the journal balances. */
export const COUNT_ROWS = statement<{ counted: CountedRows }>(
  "count_rows",
  `SELECT json_build_object(
     'payments', (SELECT COALESCE(json_agg(t), '[]')
                    FROM (SELECT state, count(*) AS n FROM jobgate.payments GROUP BY state) AS t),
     'byUse', (SELECT COALESCE(json_agg(t), '[]')
                 FROM (SELECT state, count(*) AS n FROM jobgate.payments WHERE ceiling IS NOT NULL GROUP BY state) AS t),
     'uncharged', (SELECT count(*) FROM (
                     SELECT FROM jobgate.payments JOIN jobgate.job_calls USING (call_id)
                      WHERE payments.state = 'released' AND job_calls.state = 'dead'
                     UNION ALL
                     SELECT FROM jobgate.payments JOIN jobgate.results USING (call_id)
                      WHERE payments.state = 'released' AND results.state = 'failed') AS t),
     'calls', (SELECT COALESCE(json_agg(t), '[]') FROM (
                 SELECT origin, CASE WHEN state = 'leased' AND visible_at <= ${NOW} THEN 'ready' ELSE state END AS state,
                        count(*) AS n FROM jobgate.job_calls WHERE state <> 'dead' GROUP BY 1, 2
                 UNION ALL
                 SELECT 'webhook', 'dead', count(*) FROM jobgate.job_calls
                  WHERE state = 'dead' AND dead_group < 'x402'
                 UNION ALL
                 SELECT 'x402', 'dead', count(*) FROM jobgate.job_calls
                  WHERE state = 'dead' AND dead_group >= 'x402') AS t),
     'results', (SELECT COALESCE(json_agg(t), '[]')
                   FROM (SELECT state, count(*) AS n FROM jobgate.results GROUP BY state) AS t),
     ${countsOfParts(LIST_DIALECT)
       .map(({ name, sql }) => `'${name}', (SELECT COALESCE(json_agg(t), '[]') FROM (${sql}) AS t),`)
       .join("\n     ")}
     'pruned', (SELECT COALESCE(json_agg(t), '[]') FROM (SELECT name, n FROM jobgate.pruned) AS t),
     'oldestReadyAt', (SELECT min(enqueued_at) FROM jobgate.job_calls
                        WHERE state IN ('ready', 'delayed') OR state = 'leased' AND visible_at <= ${NOW})) AS counted`,
);
/** Settled amounts in buckets of time: whole hours that were summed, and payments of the first hour. */
export const SUM_REVENUE = statement<Omit<Revenue, "amount"> & { amount: string }>(
  "sum_revenue",
  `WITH parts AS (
     SELECT hour * ${HOUR_MS} AS at, network, asset, symbol, amount, payments
       FROM jobgate.revenue_hours WHERE hour >= $3::bigint
     UNION ALL
     SELECT updated_at, network, asset, symbol, amount::numeric, 1
       FROM jobgate.payments WHERE state = 'settled' AND updated_at >= $1 AND updated_at < $3::bigint * ${HOUR_MS})
   SELECT at / $2::bigint * $2::bigint AS "from", network, asset, symbol, sum(amount)::text AS amount,
          sum(payments)::bigint AS payments
     FROM parts GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`,
);
