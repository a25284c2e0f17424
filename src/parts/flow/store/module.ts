import { orderKeyOf, ownerAndKey } from "../../../core/job-call.ts";
import { type Lookup, parameters } from "../../../store/list-dialect.ts";
import type { EndedCall } from "../../../store/machine/announcements.ts";
import { type Effect, type Known, put } from "../../../store/machine/changes.ts";
import type { SchemaDialect, StoreModule } from "../../../store/module.ts";
import { keyIn, type RowKey, type Table } from "../../../store/rows.ts";
import type { StoreTotals } from "../../../store/store.ts";
import type { FoundKey, HeldKey, KeyCounts, KeyLedger, KeyOfCall, UsedLimit } from "./ledger.ts";
import { LIMITING, limitsSchema, usedLimit } from "./limits.ts";

/*
 * At most one JobCall of a key is ready, leased or delayed, and the key's other JobCalls are held. When that JobCall ends, the
 * same commit makes the key's oldest held JobCall ready. Claims therefore need not read keys, a JobCall that waits is written
 * once, and an idle key has no row. The JobCalls of a key that the operator has paused are all held, except a leased JobCall.
 */

/** Key with an unfinished JobCall, or key that the operator has paused. */
interface KeyRow {
  readonly order_key: string;
  readonly owner: string;
  /** 1 if a dead letter holds the key up, by the `on_dead` with which the latest JobCall was accepted. */
  readonly holds_on_dead: number;
  /**
   * Dead letter that holds the key up, and the time at which the JobCall became a dead letter; null if no dead letter holds the
   * key up.
   */
  readonly held_by: number | null;
  readonly held_since: number | null;
  /** Null unless the operator has paused the key. */
  readonly paused_since: number | null;
  readonly paused_by: string | null;
  readonly pause_note: string | null;
  /** 1 if new JobCalls of the paused key are refused. */
  readonly refuses: number;
  /**
   * 1 if a JobCall of the paused key is ready, leased or delayed. A key that is not paused always has such a JobCall, or a dead
   * letter that holds it up.
   */
  readonly is_taken: number;
}

const KEYS: Table<KeyRow, "order_key"> = {
  name: "ordered_keys",
  key: ["order_key"],
  columns: [
    ...(["order_key", "owner", "holds_on_dead", "held_by", "held_since"] as const),
    ...(["paused_since", "paused_by", "pause_note", "refuses", "is_taken"] as const),
  ],
};

const FREE = { held_by: null, held_since: null };
const RUNNING = { paused_since: null, paused_by: null, pause_note: null, refuses: 0, is_taken: 1 };

/** SQL of the time since which JobCalls of a key wait for the operator; null if they do not wait. */
const SINCE = "coalesce(held_since, paused_since)";

const schema = ({ schema, integer, bytewiseText, churning }: SchemaDialect): string => `
-- Keys with a JobCall that is ready, leased or delayed, or with a dead letter that holds the key up, and keys that the operator has paused.
CREATE TABLE ${schema}ordered_keys (
  order_key     ${bytewiseText} NOT NULL PRIMARY KEY,
  owner         TEXT NOT NULL,
  holds_on_dead ${integer} NOT NULL,
  held_by       ${integer},
  held_since    ${integer},
  paused_since  ${integer},
  paused_by     TEXT,
  pause_note    TEXT,
  refuses       ${integer} NOT NULL,
  is_taken      ${integer} NOT NULL
)${churning};
CREATE INDEX ordered_keys_held ON ${schema}ordered_keys (${SINCE}) WHERE ${SINCE} IS NOT NULL;
`;

type ListedRow = Omit<KeyRow, "owner" | "holds_on_dead"> & { readonly waiting: number };

/** Order of the JobCalls that have a key. */
export const FLOW: StoreModule<KeyLedger> = {
  schema: { table: KEYS.name, sql: (dialect) => schema(dialect) + limitsSchema(dialect) },
  limiting: LIMITING,

  ordering: {
    row: rowKey,

    add({ orderKey, holdsOnDead }, rows) {
      const holds_on_dead = holdsOnDead ? 1 : 0;
      const row = rows.find(KEYS, { order_key: orderKey });
      if (row?.refuses === 1) return "refused";
      if (row === undefined) rows.put(KEYS, { ...newRow(orderKey), holds_on_dead });
      else if (row.holds_on_dead !== holds_on_dead) rows.put(KEYS, { ...row, holds_on_dead });
      return row === undefined ? "first" : "waits";
    },

    addAgain(callId, orderKey, rows) {
      const row = rows.find(KEYS, { order_key: orderKey });
      if (row !== undefined && row.held_by !== callId) return false;
      // A key without a row was not held by the dead letter.
      rows.put(KEYS, { ...(row ?? newRow(orderKey)), ...FREE });
      return row === undefined || !isPaused(row);
    },

    takeBack(orderKey, rows) {
      const row = rows.find(KEYS, { order_key: orderKey });
      if (row === undefined || !isPaused(row)) return false;
      rows.put(KEYS, { ...row, is_taken: 0 });
      return true;
    },

    isHeldBy: (callId, orderKey, rows) => rows.find(KEYS, { order_key: orderKey })?.held_by === callId,
  },

  on: {
    finished: ({ call }, known) => next(call, known),
    dropped: ({ call }, known) => (keyOf(call, known)?.held_by === call.call_id ? next(call, known) : []),
    deadLettered({ call, at }, known) {
      const key = keyOf(call, known);
      if (key?.holds_on_dead !== 1) return next(call, known);
      return [put(KEYS, { ...key, held_by: call.call_id, held_since: at, is_taken: 0 })];
    },
    keyResumed: ({ orderKey }, known) => next({ order_key: orderKey }, known),
  },

  steps: {
    pauseKey: {
      orderKeys: (key) => [orderKeyOf(key)],
      run({ rows }, now, { by, note, refusesAccepts, ...key }) {
        const order_key = orderKeyOf(key);
        const row = rows.find(KEYS, { order_key });
        const wasPaused = row !== undefined && isPaused(row);
        const isTaken = row !== undefined && (wasPaused ? row.is_taken === 1 : row.held_by === null);
        rows.put(KEYS, {
          ...(row ?? newRow(order_key)),
          paused_since: wasPaused ? row.paused_since : now,
          paused_by: by,
          pause_note: note,
          refuses: refusesAccepts ? 1 : 0,
          is_taken: isTaken ? 1 : 0,
        });
      },
    },

    resumeKey: {
      orderKeys: (key) => [orderKeyOf(key)],
      run(commit, _now, key) {
        const { rows } = commit;
        const order_key = orderKeyOf(key);
        const row = rows.find(KEYS, { order_key });
        if (row === undefined || !isPaused(row)) return false;
        rows.put(KEYS, { ...row, ...RUNNING });
        if (row.is_taken === 0 && row.held_by === null)
          commit.note({ kind: "keyResumed", orderKey: order_key });
        return true;
      },
    },
  },

  counted: {
    queries: {
      keys: ({ schema }) => ({
        values: { held: "count(held_since)", paused: "count(paused_since)" },
        from: `FROM ${schema}ordered_keys WHERE ${SINCE} IS NOT NULL`,
      }),
    },
    totals: ({ keys }: { readonly keys: readonly HeldCounts[] }, { sums }) => ({ sums: { ...sums, keys } }),
  },

  forOperator: ["listHeldKeys", "findKeyOf", "findKeys", "findUsedLimit", "findCallsOfKey", "countKeys"],
  lookups: {
    *listHeldKeys({ dialect }, limit, only): Lookup<HeldKey[]> {
      const { values, add } = parameters(dialect);
      const isWanted =
        only === undefined
          ? `${SINCE} IS NOT NULL`
          : `${SINCE} IS NOT NULL AND order_key = ${add(orderKeyOf(only))}`;
      const sql = `SELECT order_key, held_by, held_since, paused_since, paused_by, pause_note, refuses, is_taken,
          (SELECT count(*) FROM ${dialect.schema}job_calls AS waiting
            WHERE waiting.state = 'held' AND waiting.order_key = held.order_key) AS waiting
         FROM ${dialect.schema}ordered_keys AS held WHERE ${isWanted} ORDER BY ${SINCE}, order_key LIMIT ${add(limit)}`;
      const name = only === undefined ? "list_held_keys" : "find_held_key";
      return ((yield { name, sql, values }) as ListedRow[]).map(toHeldKey);
    },

    *findKeyOf({ dialect }, callId): Lookup<KeyOfCall | undefined> {
      const { values, add } = parameters(dialect);
      const sql = `SELECT call.order_key, held_by, held_since, paused_since, paused_by, pause_note, refuses, is_taken,
          (SELECT count(*) FROM ${dialect.schema}job_calls AS earlier WHERE earlier.state = 'held'
              AND earlier.order_key = call.order_key AND earlier.call_id < call.call_id) AS waiting
         FROM ${dialect.schema}job_calls AS call
         LEFT JOIN ${dialect.schema}ordered_keys AS held ON held.order_key = call.order_key
        WHERE call.call_id = ${add(callId)} AND call.order_key IS NOT NULL`;
      const [row] = (yield { name: "find_key_of", sql, values }) as ListedRow[];
      if (row === undefined) return undefined;
      const { waiting: before, ...key } = toHeldKey(row);
      return { ...key, before };
    },

    *findKeys({ dialect }, beginning, limit): Lookup<FoundKey[]> {
      const { values, add } = parameters(dialect);
      const [from, end] = [orderKeyOf(beginning), `${orderKeyOf(beginning)}\u{10ffff}`];
      const sql = `SELECT order_key, coalesce(held_by, (SELECT min(call_id) FROM ${dialect.schema}job_calls AS waiting
            WHERE waiting.state = 'held' AND waiting.order_key = ordered_keys.order_key)) AS call_id
         FROM ${dialect.schema}ordered_keys WHERE order_key >= ${add(from)} AND order_key < ${add(end)}
        ORDER BY order_key LIMIT ${add(limit)}`;
      const rows = (yield { name: "find_keys", sql, values }) as FoundRow[];
      return rows.map(({ order_key, call_id }) => ({
        ...ownerAndKey(order_key),
        callId: call_id ?? undefined,
      }));
    },

    *findUsedLimit({ dialect, now }, limit): Lookup<UsedLimit> {
      const { values, add } = parameters(dialect);
      const job = add(String(limit.jobId));
      const sql = `SELECT ${dialect.now(add(now()))} AS now, (SELECT starts FROM ${dialect.schema}job_limits WHERE job_id = ${job}) AS starts,
          (SELECT count(*) FROM ${dialect.schema}job_calls${dialect.indexedBy("job_calls_limited")}
            WHERE state = 'leased' AND limited = 1 AND job_id = ${job}) AS used`;
      const [row] = (yield { name: "find_used_limit", sql, values }) as UsedRow[];
      return usedLimit(limit, row?.starts ?? undefined, row?.used ?? 0, row?.now ?? 0);
    },

    *findCallsOfKey({ dialect }, key): Lookup<number[]> {
      const { values, add } = parameters(dialect);
      const orderKey = add(orderKeyOf(key));
      const select = (states: string) =>
        `SELECT call_id FROM ${dialect.schema}job_calls WHERE ${states} AND order_key = ${orderKey}`;
      const sql = `${select("state = 'ready'")} UNION ALL ${select("state IN ('leased', 'delayed') AND state = 'delayed'")}`;
      const rows = (yield { name: "find_calls_of_key", sql, values }) as { call_id: number }[];
      return rows.map(({ call_id }) => call_id);
    },

    *countKeys({ dialect }): Lookup<KeyCounts[]> {
      const sql = `SELECT owner, count(*) AS keys, count(held_since) AS held,
          count(CASE WHEN held_since IS NULL THEN paused_since END) AS paused,
          CAST(sum((SELECT count(*) FROM ${dialect.schema}job_calls AS waiting
                     WHERE waiting.state = 'held' AND waiting.order_key = ordered_keys.order_key)) AS bigint) AS waiting
         FROM ${dialect.schema}ordered_keys GROUP BY owner ORDER BY owner`;
      return (yield { name: "count_keys", sql, values: [] }) as KeyCounts[];
    },
  },
};

interface FoundRow {
  readonly order_key: string;
  readonly call_id: number | null;
}

interface UsedRow {
  readonly now: number;
  readonly starts: string | null;
  readonly used: number;
}

interface HeldCounts {
  readonly held: number;
  /** Number of paused keys, including keys that a dead letter also holds up. */
  readonly paused: number;
}

/** Returns how many keys are held and paused. */
export function heldKeysIn({ sums }: StoreTotals): HeldCounts {
  const [counts] = (sums.keys ?? []) as readonly HeldCounts[];
  return counts ?? { held: 0, paused: 0 };
}

function rowKey(order_key: string): RowKey {
  return keyIn(KEYS, { order_key });
}

function newRow(order_key: string): KeyRow {
  return { order_key, owner: ownerAndKey(order_key).owner, holds_on_dead: 0, ...FREE, ...RUNNING };
}

function isPaused({ paused_since }: Pick<KeyRow, "paused_since">): boolean {
  return paused_since !== null;
}

function keyOf({ order_key }: Pick<EndedCall, "order_key">, { rows }: Known): KeyRow | undefined {
  return order_key === null ? undefined : rows.find(KEYS, { order_key });
}

/** Makes the JobCall that has waited longest for a key ready, after the JobCall that had the key, unless the key is paused. */
function next(call: Pick<EndedCall, "order_key">, known: Known): Effect[] {
  const { order_key } = call;
  if (order_key === null) return [];
  const key = keyOf(call, known);
  if (key !== undefined && isPaused(key)) return [put(KEYS, { ...key, ...FREE, is_taken: 0 })];
  const callId = known.firstWaiting(order_key);
  if (callId === undefined) return [{ kind: "remove", ...rowKey(order_key) }];
  const free: Effect[] = key !== undefined && key.held_by !== null ? [put(KEYS, { ...key, ...FREE })] : [];
  return [{ kind: "ready", callId }, ...free];
}

function toHeldKey(row: ListedRow): HeldKey {
  const { order_key, held_by, held_since, waiting } = row;
  return {
    ...ownerAndKey(order_key),
    waiting,
    deadLetter: held_by === null ? undefined : { callId: held_by, since: held_since ?? 0 },
    pause: pauseOf(row),
  };
}

function pauseOf({ paused_since: since, paused_by, pause_note, refuses, is_taken }: ListedRow) {
  if (since === null) return undefined;
  return {
    ...{ since, by: paused_by ?? "", note: pause_note ?? "" },
    ...{ refusesAccepts: refuses === 1, isOneOut: is_taken === 1 },
  };
}
