import {
  CALLBACK_COLUMN_LIST,
  type CallbackRow,
  CHANGED_CALLBACK_COLUMNS,
  toCallback,
} from "../../callback-row.ts";
import { CALLBACK_KEPT_MS } from "../../contract/callback-ledger.ts";
import { afterAttempt, retriedNow, toEndpointRow } from "../../rules/callbacks.ts";
import type { Database } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";
import type { SqliteEffects } from "./effects.ts";

/** Ended callbacks that are deleted with each that ends: more than one, so that they never pile up. */
const FORGOTTEN_AT_ONCE = 10;

/** Changes rows of `callbacks`, which the machine adds. */
export function callbackOperations(
  database: Database,
  effects: SqliteEffects,
): OperationTable<"useCallbackEndpoints" | "endCallback" | "retryCallback"> {
  const deleteEndpoints = database.prepare("DELETE FROM callback_endpoints");
  const insertEndpoint = database.prepare(
    "INSERT INTO callback_endpoints (url, host, events) VALUES (?, ?, ?)",
  );
  const select = database.prepare<CallbackRow>(`SELECT ${CALLBACK_COLUMN_LIST} FROM callbacks WHERE id = ?`);
  const update = database.prepare(
    `UPDATE callbacks SET ${CHANGED_CALLBACK_COLUMNS.map((column) => `${column} = ?`).join(", ")} WHERE id = ?`,
  );
  const forget = database.prepare(
    `DELETE FROM callbacks WHERE id IN
       (SELECT id FROM callbacks WHERE ended_at <= ? ORDER BY ended_at LIMIT ${FORGOTTEN_AT_ONCE})`,
  );

  function write(row: CallbackRow): void {
    update.run([...CHANGED_CALLBACK_COLUMNS.map((column) => row[column]), row.id]);
  }

  return {
    useCallbackEndpoints(_now, endpoints) {
      deleteEndpoints.run([]);
      for (const { url, host, events } of endpoints.map(toEndpointRow))
        insertEndpoint.run([url, host, events]);
      effects.forgetEndpoints();
    },

    endCallback(now, id, attempts, outcome) {
      forget.run([now - CALLBACK_KEPT_MS]);
      const row = afterAttempt(select.get([id]), attempts, outcome, now);
      if (row !== undefined) write(row);
      return row && toCallback(row);
    },

    retryCallback(now, id) {
      const known = select.get([id]);
      const row = retriedNow(known, now);
      if (row !== undefined) write(row);
      const shown = row ?? known;
      return shown && { retried: row !== undefined, callback: toCallback(shown) };
    },
  };
}

export function callbackLookups(database: Database): OperationTable<"listDueCallbacks" | "listCallbacks"> {
  // Jumps from one host to the next, however many callbacks each has.
  const selectDue = database.prepare<CallbackRow>(
    `WITH RECURSIVE next (host) AS (
       SELECT (SELECT min(host) FROM callbacks WHERE state = 'pending' AND host > ?1)
       UNION ALL
       SELECT (SELECT min(host) FROM callbacks WHERE state = 'pending' AND host > next.host) FROM next WHERE next.host IS NOT NULL),
     due (host) AS (
       SELECT host FROM next WHERE EXISTS (
         SELECT 1 FROM callbacks WHERE callbacks.host = next.host AND state = 'pending' AND due_at <= ?2) LIMIT ?3)
     SELECT ${CALLBACK_COLUMN_LIST} FROM due CROSS JOIN callbacks ON callbacks.id IN (
       SELECT id FROM callbacks AS one WHERE one.host = due.host AND state = 'pending' AND due_at <= ?2
        ORDER BY due_at, id LIMIT ?4)
      ORDER BY callbacks.host, callbacks.due_at, callbacks.id`,
  );
  const list = (where: string) =>
    database.prepare<CallbackRow>(
      `SELECT ${CALLBACK_COLUMN_LIST} FROM callbacks WHERE id < ?1 ${where} ORDER BY id DESC LIMIT ?2`,
    );
  const selectNewest = list("");
  const selectInState = list("AND state = ?3");
  const selectOfCall = list("AND call_id = ?3 AND (?4 IS NULL OR state = ?4)");
  return {
    listDueCallbacks: (now, { hosts, perHost, after }) =>
      selectDue.all([after, now, hosts, perHost]).map(toCallback),
    listCallbacks(_now, { state, callId, limit, before = Number.MAX_SAFE_INTEGER }) {
      const rows =
        callId !== undefined
          ? selectOfCall.all([before, limit, callId, state ?? null])
          : state === undefined
            ? selectNewest.all([before, limit])
            : selectInState.all([before, limit, state]);
      return rows.map(toCallback);
    },
  };
}
