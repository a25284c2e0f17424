import { ownerAndKey } from "../../../core/job-call.ts";
import { type Lookup, parameters } from "../../../store/list-dialect.ts";
import type { EndedCall } from "../../../store/machine/announcements.ts";
import { type Effect, type Known, put } from "../../../store/machine/changes.ts";
import type { SchemaDialect, StoreModule } from "../../../store/module.ts";
import { keyIn, type RowKey, type Table } from "../../../store/rows.ts";
import type { HeldKey, KeyCounts, KeyLedger } from "./ledger.ts";
import { LIMITING, limitsSchema } from "./limits.ts";

/*
 * Of the JobCalls with one key, only one is ready, leased or delayed. The others are held, and the commit that ends this one makes
 * the oldest of them ready. So claims read nothing of this, a JobCall that waits is written once, and an idle key has no row.
 */

/** A key with a JobCall that is not over. */
interface KeyRow {
  readonly order_key: string;
  readonly owner: string;
  /** 1 if a dead letter holds the key up, as the latest change of the endpoint says. */
  readonly holds_on_dead: number;
  /** Dead letter that holds the key up, and the time at which it became one; null if none does. */
  readonly held_by: number | null;
  readonly held_since: number | null;
}

const KEYS: Table<KeyRow, "order_key"> = {
  name: "ordered_keys",
  key: ["order_key"],
  columns: ["order_key", "owner", "holds_on_dead", "held_by", "held_since"],
};

const FREE = { held_by: null, held_since: null };

const schema = ({ schema, integer, churning }: SchemaDialect): string => `
-- Keys with a JobCall that is ready, leased or delayed, or with a dead letter that holds the key up.
CREATE TABLE ${schema}ordered_keys (
  order_key     TEXT NOT NULL PRIMARY KEY,
  owner         TEXT NOT NULL,
  holds_on_dead ${integer} NOT NULL,
  held_by       ${integer},
  held_since    ${integer}
)${churning};
CREATE INDEX ordered_keys_held ON ${schema}ordered_keys (held_since) WHERE held_since IS NOT NULL;
`;

/** Order of the JobCalls that have a key. */
export const FLOW: StoreModule<KeyLedger> = {
  schema: { table: KEYS.name, sql: (dialect) => schema(dialect) + limitsSchema(dialect) },
  limiting: LIMITING,

  ordering: {
    row: (orderKey): RowKey => keyIn(KEYS, { order_key: orderKey }),

    add({ orderKey: order_key, holdsOnDead }, rows) {
      const holds_on_dead = holdsOnDead ? 1 : 0;
      const row = rows.find(KEYS, { order_key });
      if (row === undefined) rows.put(KEYS, { ...FREE, ...ownedBy(order_key), holds_on_dead });
      else if (row.holds_on_dead !== holds_on_dead) rows.put(KEYS, { ...row, holds_on_dead });
      return row === undefined;
    },

    addAgain(callId, order_key, rows) {
      const row = rows.find(KEYS, { order_key });
      if (row !== undefined && row.held_by !== callId) return false;
      // A key without a row went on after the dead letter.
      rows.put(KEYS, { ...(row ?? { ...ownedBy(order_key), holds_on_dead: 0 }), ...FREE });
      return true;
    },
  },

  on: {
    finished: ({ call }, known) => next(call, known),
    dropped: ({ call }, known) => (keyOf(call, known)?.held_by === call.call_id ? next(call, known) : []),
    deadLettered({ call, at }, known) {
      const key = keyOf(call, known);
      if (key?.holds_on_dead !== 1) return next(call, known);
      return [put(KEYS, { ...key, held_by: call.call_id, held_since: at })];
    },
  },

  forOperator: ["listHeldKeys", "countKeys"],
  lookups: {
    *listHeldKeys({ dialect }, limit): Lookup<HeldKey[]> {
      const { values, add } = parameters(dialect);
      const sql = `SELECT order_key, held_by, held_since, (SELECT count(*) FROM ${dialect.schema}job_calls AS waiting
          WHERE waiting.state = 'held' AND waiting.order_key = held.order_key) AS waiting
         FROM ${dialect.schema}ordered_keys AS held WHERE held_since IS NOT NULL ORDER BY held_since, order_key LIMIT ${add(limit)}`;
      const rows = (yield { name: "list_held_keys", sql, values }) as (KeyRow & { waiting: number })[];
      return rows.map(({ order_key, held_by, held_since, waiting }) => {
        return { ...ownerAndKey(order_key), callId: held_by ?? 0, waiting, since: held_since ?? 0 };
      });
    },

    *countKeys({ dialect }): Lookup<KeyCounts[]> {
      const sql = `SELECT owner, count(*) AS keys, count(held_since) AS held,
          CAST(sum((SELECT count(*) FROM ${dialect.schema}job_calls AS waiting
                     WHERE waiting.state = 'held' AND waiting.order_key = ordered_keys.order_key)) AS bigint) AS waiting
         FROM ${dialect.schema}ordered_keys GROUP BY owner ORDER BY owner`;
      return (yield { name: "count_keys", sql, values: [] }) as KeyCounts[];
    },
  },
};

function ownedBy(order_key: string): Pick<KeyRow, "order_key" | "owner"> {
  return { order_key, owner: ownerAndKey(order_key).owner };
}

function keyOf({ order_key }: EndedCall, { rows }: Known): KeyRow | undefined {
  return order_key === null ? undefined : rows.find(KEYS, { order_key });
}

/** Hands the key of a JobCall that had it over to the JobCall that has waited longest. */
function next(call: EndedCall, known: Known): Effect[] {
  const { order_key } = call;
  if (order_key === null) return [];
  const callId = known.firstWaiting(order_key);
  if (callId === undefined) return [{ kind: "remove", ...keyIn(KEYS, { order_key }) }];
  const key = keyOf(call, known);
  const free: Effect[] = key !== undefined && key.held_by !== null ? [put(KEYS, { ...key, ...FREE })] : [];
  return [{ kind: "ready", callId }, ...free];
}
