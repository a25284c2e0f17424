import type { PrunedKind } from "../../contract/pruning.ts";
import { rowsOfPayments } from "../../part-modules.ts";
import {
  type ChunkRow,
  chunksToRemove,
  countedKinds,
  forgetResult,
  mayHaveMoreChunks,
  type PruneRow,
  pruneOutcome,
  removeForgottenChunks,
  selectChunks,
  selectForPruning,
} from "../../prune-queries.ts";
import type { Database } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";

/** Number of pages that one step gives back. The step may have to move as many pages. */
const SHRUNK_AT_ONCE = 250;
/** Fraction of the file's pages that stay free, because new rows will use them. */
const KEPT_FREE = 1 / 20;

export function pruneOperations(database: Database): OperationTable<"prune" | "forgetResult" | "shrink"> {
  const parameters = { schema: "", after: "?1", before: "?2", now: "?3" };
  const select = (kind: Exclude<PrunedKind, "chunks">) =>
    database.prepare<PruneRow>(selectForPruning(kind, parameters));
  const selects = { results: select("results"), calls: select("calls"), payments: select("payments") };
  const remove = (table: string) =>
    database.prepare(`DELETE FROM ${table} WHERE call_id IN (SELECT value FROM json_each(?))`);
  const removals = {
    results: remove("results"),
    calls: remove("finished_calls"),
    payments: remove("payments"),
  };
  const count = ({ table, countedAs }: ReturnType<typeof countedKinds>["results" | "payments"]) =>
    database.prepare(
      `INSERT INTO pruned (name, n)
       SELECT ${countedAs} AS name, count(*) FROM ${table} WHERE call_id IN (SELECT value FROM json_each(?)) GROUP BY 1
       ON CONFLICT (name) DO UPDATE SET n = n + excluded.n`,
    );
  // An adoption is deleted with its payment, because otherwise the adoption could sell a job again.
  const forgetAdoptions = database.prepare(
    `DELETE FROM adopted_payments WHERE (payer, nonce, network, asset) IN (
       SELECT payer, nonce, network, asset FROM payments WHERE call_id IN (SELECT value FROM json_each(?)))`,
  );
  const forgetRows = rowsOfPayments("", "old").map(({ table, condition }) =>
    database.prepare(
      `DELETE FROM ${table} AS old WHERE call_id IN (SELECT value FROM json_each(?)) AND ${condition}`,
    ),
  );
  const selectOldChunks = database.prepare<ChunkRow>(selectChunks(parameters));
  const removeChunk = database.prepare(
    "DELETE FROM result_chunks WHERE call_id = ? AND attempt = ? AND place = ?",
  );
  const forget = database.prepare(forgetResult(parameters, "?1"));
  const removeForgotten = database.prepare(removeForgottenChunks(parameters, "?1"));
  const kinds = countedKinds("");
  const counts = { results: count(kinds.results), payments: count(kinds.payments) };
  const pageCount = database.prepare<{ page_count: number }>("PRAGMA page_count");
  const freeCount = database.prepare<{ freelist_count: number }>("PRAGMA freelist_count");
  const autoVacuum = database.prepare<{ auto_vacuum: number }>("PRAGMA auto_vacuum");

  /**
   * Leaves the bytes in free pages, so that these pages need not be overwritten. Only a result that must not be kept is
   * erased.
   */
  const quickly = <Done>(remove: () => Done): Done => {
    database.exec("PRAGMA secure_delete = 0");
    try {
      return remove();
    } finally {
      database.exec("PRAGMA secure_delete = 1");
    }
  };

  return {
    prune(now, { kind, ageMs, after }) {
      if (kind === "chunks") {
        const { old, outcome } = chunksToRemove(selectOldChunks.all([after]), after);
        for (const { call_id, attempt, place } of old) removeChunk.run([call_id, attempt, place]);
        return outcome;
      }
      const before = now - ageMs;
      // node:sqlite refuses a parameter that a query does not have.
      const rows = selects[kind].all([after, before, ...(kind === "payments" ? [now] : [])]);
      const old = rows.flatMap(({ call_id, is_old }) => (is_old === 1 ? call_id : []));
      if (old.length > 0) {
        const json = JSON.stringify(old);
        if (kind !== "calls") counts[kind].run([json]);
        if (kind === "payments") for (const forget of [forgetAdoptions, ...forgetRows]) forget.run([json]);
        quickly(() => removals[kind].run([json]));
      }
      return pruneOutcome(rows, old.length, before);
    },

    forgetResult(_now, callId) {
      forget.run([callId]);
      return mayHaveMoreChunks(removeForgotten.run([callId]).changes);
    },

    shrink() {
      // A file that another tool wrote, such as `.recover`, cannot give back its pages.
      if (autoVacuum.get([])?.auto_vacuum === 0) return false;
      const free = freeCount.get([])?.freelist_count ?? 0;
      if (free <= (pageCount.get([])?.page_count ?? 0) * KEPT_FREE) return false;
      database.exec(`PRAGMA incremental_vacuum(${SHRUNK_AT_ONCE})`);
      return true;
    },
  };
}
