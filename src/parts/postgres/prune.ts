import { GatewayError } from "../../core/errors.ts";
import type { PruneOutcome, PruneStep } from "../../store/contract/pruning.ts";
import { rowsOfPayments } from "../../store/part-modules.ts";
import {
  type ChunkRow,
  chunksToRemove,
  countedKinds,
  forgetResult as forgetSql,
  mayHaveMoreChunks,
  type PruneRow,
  pruneOutcome,
  removeForgottenChunks,
  selectChunks,
  selectForPruning,
} from "../../store/prune-queries.ts";
import type { ConnectionPool } from "./connection/connection-pool.ts";
import { NOW, numberArray, type Sql, sqlOf, statement } from "./sql.ts";

/** Key of the advisory lock of the replica that prunes: "jobp" in ASCII. */
const LOCK_KEY = 0x6a_6f_62_70;

const BEGIN = statement<never>("begin_pruning", "BEGIN");
const TAKE_TURN = statement<{ is_mine: boolean; now: number }>(
  "take_turn",
  `SELECT pg_try_advisory_xact_lock(${LOCK_KEY}) AS is_mine, ${NOW} AS now`,
);
const COMMIT = statement<never>("commit_pruning", "COMMIT");
const ROLLBACK = statement<never>("roll_back_pruning", "ROLLBACK");

const PARAMETERS = {
  schema: "jobgate.",
  after: "$1::bigint",
  before: "$2::bigint",
  now: "$3::bigint",
};
const SELECT = {
  results: statement<PruneRow>("prune_select_results", selectForPruning("results", PARAMETERS)),
  calls: statement<PruneRow>("prune_select_calls", selectForPruning("calls", PARAMETERS)),
  payments: statement<PruneRow>("prune_select_payments", selectForPruning("payments", PARAMETERS)),
};
const REMOVE = {
  results: removeCounted("results"),
  calls: statement<{ n: number }>(
    "prune_calls",
    `WITH gone AS (DELETE FROM jobgate.finished_calls WHERE call_id = ANY ($1::bigint[]) RETURNING call_id)
     SELECT count(*) AS n FROM gone`,
  ),
  payments: removeCounted("payments"),
};
/** Deletes rows of modules with the payments of their calls. */
const FORGET_WITH_PAYMENTS = rowsOfPayments("jobgate.", "old").map(({ table, condition }) =>
  statement<never>(
    `forget_rows_of_${table}_with_payments`,
    `DELETE FROM jobgate.${table} WHERE ctid = ANY (ARRAY (
       SELECT ctid FROM jobgate.${table} AS old WHERE old.call_id = ANY ($1::bigint[]) AND ${condition} FOR UPDATE SKIP LOCKED))`,
  ),
);

const SELECT_CHUNKS = statement<ChunkRow>("prune_select_chunks", selectChunks(PARAMETERS));
const REMOVE_CHUNKS = statement<never>(
  "prune_chunks",
  `DELETE FROM jobgate.result_chunks
    USING unnest($1::bigint[], $2::bigint[], $3::int[]) AS old (call_id, attempt, place)
    WHERE (result_chunks.call_id, result_chunks.attempt, result_chunks.place) = (old.call_id, old.attempt, old.place)`,
);

const FORGET = statement<never>("forget_result", forgetSql(PARAMETERS, "$1::bigint"));
const REMOVE_FORGOTTEN = statement<{ n: number }>(
  "forget_chunks",
  `WITH gone AS (${removeForgottenChunks(PARAMETERS, "$1::bigint")} RETURNING place) SELECT count(*) AS n FROM gone`,
);

/** Skips rows that another transaction has locked. The next round finds them again. */
function removeCounted(kind: keyof ReturnType<typeof countedKinds>) {
  const { table, countedAs } = countedKinds("jobgate.")[kind];
  // The adoptions of forgotten payments are forgotten too, because such an adoption could sell a job again.
  const forgetAdoptions = `adoptions AS (
       DELETE FROM jobgate.adopted_payments AS adopted USING gone
        WHERE (adopted.payer, adopted.nonce, adopted.network, adopted.asset)
            = (gone.payer, gone.nonce, gone.network, gone.asset)),`;
  return statement<{ n: number }>(
    `prune_${kind}`,
    `WITH gone AS (
       DELETE FROM jobgate.${table} WHERE call_id = ANY (ARRAY (
         SELECT call_id FROM jobgate.${table} WHERE call_id = ANY ($1::bigint[]) FOR UPDATE SKIP LOCKED))
       RETURNING ${countedAs} AS name${kind === "payments" ? ", payer, nonce, network, asset" : ""}),
     ${kind === "payments" ? forgetAdoptions : ""}
     counted AS (
       INSERT INTO jobgate.pruned AS sums SELECT name, count(*) FROM gone GROUP BY name
       ON CONFLICT (name) DO UPDATE SET n = sums.n + excluded.n)
     SELECT count(*) AS n FROM gone`,
  );
}

/**
 * Runs one step in a transaction of its own, not in a batch, so that no accept waits for it. The replica that has the lock
 * prunes; other replicas do nothing.
 * @param now replaces the database's clock in tests
 * @throws GatewayError `store_unavailable`
 */
export async function prune(
  pool: ConnectionPool,
  step: PruneStep,
  now: number | null,
): Promise<PruneOutcome> {
  try {
    return await pool.use(async (client, discard) => {
      const sql = sqlOf(client);
      try {
        await sql.run(BEGIN);
        const outcome = await pruneWith(sql, step, now);
        await sql.run(COMMIT);
        return outcome;
      } catch (error) {
        await sql.run(ROLLBACK).catch(discard);
        throw error;
      }
    });
  } catch (cause) {
    throw new GatewayError("store_unavailable", "The store could not forget old entries.", { cause });
  }
}

/** Deletes a result, with each statement in a separate transaction. @throws GatewayError `store_unavailable` */
export async function forgetResult(pool: ConnectionPool, callId: number): Promise<boolean> {
  try {
    return await pool.use(async (client) => {
      const sql = sqlOf(client);
      await sql.run(FORGET, [callId]);
      const [removed] = await sql.run(REMOVE_FORGOTTEN, [callId]);
      return mayHaveMoreChunks(removed?.n ?? 0);
    });
  } catch (cause) {
    throw new GatewayError("store_unavailable", "The store could not forget a result.", { cause });
  }
}

async function pruneWith(
  sql: Sql,
  { kind, ageMs, after }: PruneStep,
  testNow: number | null,
): Promise<PruneOutcome> {
  const [turn] = await sql.run(TAKE_TURN, [testNow]);
  if (turn?.is_mine !== true) return { removed: 0 };
  if (kind === "chunks") {
    const { old, outcome } = chunksToRemove(await sql.run(SELECT_CHUNKS, [after]), after);
    const columns = (["call_id", "attempt", "place"] as const).map((name) => old.map((row) => row[name]));
    if (old.length > 0) await sql.run(REMOVE_CHUNKS, columns.map(numberArray));
    return outcome;
  }
  const before = turn.now - ageMs;
  const rows = await sql.run(SELECT[kind], [after, before, ...(kind === "payments" ? [turn.now] : [])]);
  const old = rows.flatMap(({ call_id, is_old }) => (is_old === 1 ? call_id : []));
  if (old.length === 0) return pruneOutcome(rows, 0, before);
  if (kind === "payments")
    for (const forgetRows of FORGET_WITH_PAYMENTS) await sql.run(forgetRows, [numberArray(old)]);
  const [removed] = await sql.run(REMOVE[kind], [numberArray(old)]);
  return pruneOutcome(rows, removed?.n ?? 0, before);
}
