import type { PrunedKind, PruneOutcome } from "./contract/pruning.ts";
import { nobodyKeeps } from "./part-modules.ts";

/** Number of entries that one step reads. Deleting this many takes a few milliseconds. */
const LOOKED_AT = 500;

/**
 * Largest error of a chain's clock or of this machine's clock. An authorization may be usable for this long after its
 * end.
 */
const CLOCK_MARGIN_SECS = 86_400;

/** An entry that a step reads. */
export interface PruneRow {
  readonly call_id: number;
  /** Times rise with call IDs, except between neighbouring entries. */
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
export function selectForPruning(
  kind: Exclude<PrunedKind, "chunks">,
  { schema, after, before, now }: PruneDialect,
): string {
  const has = (table: string) =>
    `EXISTS (SELECT 1 FROM ${schema}${table} AS other WHERE other.call_id = entry.call_id)`;
  const { table, begun, isOld } = {
    results: {
      table: "results",
      begun: "enqueued_at",
      // A job that is charged after it ran returns its result only once the charge is decided.
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
        AND NOT ${has("finished_calls")}${nobodyKeeps("payments", schema, "entry")}`,
    },
  }[kind];
  return `SELECT call_id, ${begun} AS begun_at, CASE WHEN ${isOld} THEN 1 ELSE 0 END AS is_old
    FROM ${schema}${table} AS entry WHERE call_id > ${after} ORDER BY call_id LIMIT ${LOOKED_AT}`;
}

/** Number of chunks that one step removes: a megabyte, which SQLite overwrites within about 10 ms. */
const CHUNKS_AT_ONCE = 4;

/** Chunk of a result that a step reads. */
export interface ChunkRow {
  readonly call_id: number;
  readonly attempt: number;
  readonly place: number;
  readonly is_old: 0 | 1;
}

/** SQL that selects the next chunks, including chunks of kept results and of running deliveries. It reads an index. */
export const selectChunks = ({ schema, after }: Pick<PruneDialect, "schema" | "after">): string => {
  const has = (table: string, condition: string) =>
    `EXISTS (SELECT 1 FROM ${schema}${table} AS other WHERE other.call_id = chunk.call_id AND ${condition})`;
  return `SELECT call_id, attempt, place,
      CASE WHEN ${has("results", "other.attempt = chunk.attempt AND other.stored_bytes IS NOT NULL")}
             OR ${has("job_calls", "other.attempts = chunk.attempt AND other.state = 'leased'")} THEN 0 ELSE 1 END AS is_old
    FROM ${schema}result_chunks AS chunk WHERE call_id > ${after} ORDER BY call_id, attempt, place LIMIT ${LOOKED_AT}`;
};

/** SQL that deletes a result. A JobCall that had no result has no content type. @param id parameter with the JobCall's ID */
export const forgetResult = ({ schema }: Pick<PruneDialect, "schema">, id: string): string =>
  `UPDATE ${schema}results SET body = NULL, stored_bytes = NULL, headers = NULL, content_type = ''
    WHERE call_id = ${id} AND content_type IS NOT NULL`;

/** SQL that removes the next chunks of a deleted result. Pruning removes chunks that a crash leaves. */
export const removeForgottenChunks = ({ schema }: Pick<PruneDialect, "schema">, id: string): string =>
  `DELETE FROM ${schema}result_chunks WHERE call_id = ${id} AND (attempt, place) IN (
     SELECT attempt, place FROM ${schema}result_chunks WHERE call_id = ${id} ORDER BY attempt, place LIMIT ${CHUNKS_AT_ONCE})`;

/** Returns true if more chunks of a deleted result may be left. @param removed number of chunks that the step removed */
export const mayHaveMoreChunks = (removed: number): boolean => removed === CHUNKS_AT_ONCE;

/** Decides which chunks a step removes, and where the next step begins. */
export function chunksToRemove(
  rows: readonly ChunkRow[],
  after: number,
): { readonly old: readonly ChunkRow[]; readonly outcome: PruneOutcome } {
  const all = rows.filter(({ is_old }) => is_old === 1);
  const old = all.slice(0, CHUNKS_AT_ONCE);
  const [left, last] = [all[CHUNKS_AT_ONCE], rows.at(-1)];
  const removed = old.length;
  if (left !== undefined) return { old, outcome: { removed, next: left.call_id - 1 } };
  if (last === undefined || rows.length < LOOKED_AT) return { old, outcome: { removed } };
  // The last call may have more chunks than the step has read.
  return { old, outcome: { removed, next: Math.max(last.call_id - 1, after + 1) } };
}

/**
 * Kinds of entries that totals include, with the SQL of the name under which they are counted after their deletion.
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

/** Decides where the next step begins. An entry that begins after the time cannot have ended before it. */
export function pruneOutcome(rows: readonly PruneRow[], removed: number, before: number): PruneOutcome {
  const last = rows.at(-1);
  const isLast = rows.length < LOOKED_AT || rows.every(({ begun_at }) => begun_at >= before);
  return last === undefined || isLast ? { removed } : { removed, next: last.call_id };
}
