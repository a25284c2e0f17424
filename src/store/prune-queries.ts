import type { PrunedKind, PruneOutcome } from "./contract/pruning.ts";
import { nobodyKeeps } from "./part-modules.ts";

/** Entries that one step looks at. Deleting as many takes a few milliseconds. */
const LOOKED_AT = 500;

/** Longest error of a chain's clock or of this one, by which an authorization may outlive its end. */
const CLOCK_MARGIN_SECS = 86_400;

/** An entry that a step looks at. */
export interface PruneRow {
  readonly call_id: number;
  /** Rises with the call ID, but for neighbours. */
  readonly begun_at: number;
  readonly is_old: 0 | 1;
}

/** SQL that differs between dialects. */
interface PruneDialect {
  /** Prefix of table names: empty, or with a dot at its end. */
  readonly schema: string;
  /** Parameters: the call ID to begin after, the time before which entries are old, and the present time. */
  readonly after: string;
  readonly before: string;
  readonly now: string;
}

/** SQL that selects the next entries of a kind, old or not. It reads one index upwards, and never the whole table. */
export function selectForPruning(kind: PrunedKind, { schema, after, before, now }: PruneDialect): string {
  const has = (table: string) =>
    `EXISTS (SELECT 1 FROM ${schema}${table} AS other WHERE other.call_id = entry.call_id)`;
  const { table, begun, isOld } = {
    results: {
      table: "results",
      begun: "enqueued_at",
      // Nobody gets the result of a job by use before its charge is decided.
      isOld: `finished_at < ${before}${nobodyKeeps("results", schema, "entry")}
        AND NOT (charge IS NOT NULL AND EXISTS (
          SELECT 1 FROM ${schema}payments AS payment WHERE payment.call_id = entry.call_id
             AND (payment.state IN ('settling', 'unresolved') OR payment.updated_at >= ${before})))`,
    },
    calls: { table: "finished_calls", begun: "enqueued_at", isOld: `finished_at < ${before}` },
    payments: {
      table: "payments",
      begun: "created_at",
      isOld: `state IN ('settled', 'failed', 'released') AND updated_at < ${before}
        AND valid_before_secs < ${now} / 1000 - ${CLOCK_MARGIN_SECS}
        AND NOT ${has("watched_payments")} AND NOT ${has("job_calls")} AND NOT ${has("results")}
        AND NOT ${has("finished_calls")}${nobodyKeeps("payments", schema, "entry")}
        AND NOT (redeems_quote = 1 AND EXISTS (
          SELECT 1 FROM ${schema}quotes WHERE digest = entry.receipt AND expires_at > ${now}))`,
    },
  }[kind];
  return `SELECT call_id, ${begun} AS begun_at, CASE WHEN ${isOld} THEN 1 ELSE 0 END AS is_old
    FROM ${schema}${table} AS entry WHERE call_id > ${after} ORDER BY call_id LIMIT ${LOOKED_AT}`;
}

/**
 * Kinds of entries that totals count, with the SQL of the name that they are counted under once they are gone.
 * @param schema prefix of table names: empty, or with a dot at its end
 */
export const countedKinds = (schema: string) =>
  ({
    results: {
      table: "results",
      countedAs: `CASE WHEN state = 'succeeded' THEN 'done'
        WHEN EXISTS (SELECT 1 FROM ${schema}payments AS payment
                      WHERE payment.call_id = results.call_id AND payment.state = 'released') THEN 'uncharged' ELSE 'dead' END`,
    },
    payments: {
      table: "payments",
      countedAs: "CASE WHEN ceiling IS NULL THEN state ELSE 'used_' || state END",
    },
  }) as const;

/** Decides where the next step begins. Nothing that begins after the time can have ended before it. */
export function pruneOutcome(rows: readonly PruneRow[], removed: number, before: number): PruneOutcome {
  const last = rows.at(-1);
  const isLast = rows.length < LOOKED_AT || rows.every(({ begun_at }) => begun_at >= before);
  return last === undefined || isLast ? { removed } : { removed, next: last.call_id };
}
