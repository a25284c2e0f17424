import { type CallbackRow, toCallback } from "../callback-row.ts";
import { CALLBACK_KEPT_MS, type Callback } from "../contract/callback-ledger.ts";
import { type ListDialect, type Lookup, parameters } from "../list-dialect.ts";
import { CALLBACK_REACTIONS, CALLBACKS_TABLE, ENDPOINTS } from "../machine/callbacks.ts";
import type { StoreModule } from "../module.ts";
import { keyIn, type OldRows } from "../rows.ts";
import { afterAttempt, retriedNow, toEndpointRow } from "../rules/callbacks.ts";

const ENDED: OldRows = {
  table: CALLBACKS_TABLE.name,
  where: (_dialect, before) => `ended_at <= ${before}`,
  limit: 200,
};

const COLUMN_LIST = CALLBACKS_TABLE.columns.map((column) => `callbacks.${column}`).join(", ");

const keyOf = (id: number) => [keyIn(CALLBACKS_TABLE, { id })];

/** Callbacks to operators and buyers. */
export const CALLBACKS = {
  on: CALLBACK_REACTIONS,

  steps: {
    useCallbackEndpoints: {
      keys: (endpoints) => endpoints.map(({ url }) => keyIn(ENDPOINTS, { url })),
      run({ rows }, _now, endpoints) {
        const wanted = endpoints.map(toEndpointRow);
        const urls = new Set(wanted.map(({ url }) => url));
        for (const known of rows.all(ENDPOINTS)) if (!urls.has(known.url)) rows.remove(ENDPOINTS, known);
        for (const row of wanted) rows.put(ENDPOINTS, row);
      },
    },

    endCallback: {
      keys: keyOf,
      run({ rows }, now, id, attempts, outcome) {
        rows.forget(ENDED, now - CALLBACK_KEPT_MS);
        const row = afterAttempt(rows.find(CALLBACKS_TABLE, { id }), attempts, outcome, now);
        if (row !== undefined) rows.put(CALLBACKS_TABLE, row);
        return row && toCallback(row);
      },
    },

    retryCallback: {
      keys: keyOf,
      run({ rows }, now, id) {
        const known = rows.find(CALLBACKS_TABLE, { id });
        const row = retriedNow(known, now);
        if (row !== undefined) rows.put(CALLBACKS_TABLE, row);
        const shown = row ?? known;
        return shown && { retried: row !== undefined, callback: toCallback(shown) };
      },
    },
  },

  lookups: {
    *listDueCallbacks({ dialect, now }, { hosts, perHost, after }): Lookup<Callback[]> {
      const { values, add } = parameters(dialect);
      const page = {
        after: add(after),
        now: dialect.now(add(now())),
        hosts: add(hosts),
        perHost: add(perHost),
      };
      const rows = (yield {
        name: "list_due_callbacks",
        sql: selectDue(dialect, page),
        values,
      }) as CallbackRow[];
      return rows.map(toCallback);
    },

    *listCallbacks(
      { dialect },
      { state, callId, limit, before = Number.MAX_SAFE_INTEGER },
    ): Lookup<Callback[]> {
      const { values, add } = parameters(dialect);
      const isWanted = [
        ...(callId === undefined ? [] : [`call_id = ${add(callId)}`]),
        ...(state === undefined ? [] : [`state = ${add(state)}`]),
        `id < ${add(before)}`,
      ];
      const sql = `SELECT ${COLUMN_LIST} FROM ${dialect.schema}callbacks
        WHERE ${isWanted.join(" AND ")} ORDER BY id DESC LIMIT ${add(limit)}`;
      return ((yield { sql, values }) as CallbackRow[]).map(toCallback);
    },
  },
} satisfies StoreModule;

/** Jumps from one host to the next, however many callbacks each has. */
function selectDue(
  { schema, ofEach }: ListDialect,
  { after, now, hosts, perHost }: Readonly<Record<"after" | "now" | "hosts" | "perHost", string>>,
): string {
  const callbacks = `${schema}callbacks`;
  const isDue = `state = 'pending' AND due_at <= ${now}`;
  return `
    WITH RECURSIVE next (host) AS (
      SELECT (SELECT min(host) FROM ${callbacks} WHERE state = 'pending' AND host > ${after})
       UNION ALL
      SELECT (SELECT min(host) FROM ${callbacks} WHERE state = 'pending' AND host > next.host)
        FROM next WHERE next.host IS NOT NULL),
    due (host) AS (
      SELECT host FROM next WHERE EXISTS (
        SELECT 1 FROM ${callbacks} WHERE callbacks.host = next.host AND ${isDue}) LIMIT ${hosts})
    SELECT ${COLUMN_LIST} FROM due ${ofEach("callbacks", `callbacks.host = due.host AND ${isDue} ORDER BY due_at, id LIMIT ${perHost}`)}
     ORDER BY callbacks.host, callbacks.due_at, callbacks.id`;
}
