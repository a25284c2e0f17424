import { createHash } from "node:crypto";
import type { CallOrder } from "../../../core/job-call.ts";
import { type Lookup, parameters } from "../../../store/list-dialect.ts";
import type { Effect } from "../../../store/machine/changes.ts";
import type { SchemaDialect, StoreModule } from "../../../store/module.ts";
import { keyIn, type RowKey, type Rows, type Table } from "../../../store/rows.ts";
import type { HeldKey, KeyCounts, KeyLedger } from "./ledger.ts";

/*
 * Of the JobCalls with one key, only the first is ready, leased or delayed. The others are held, in a queue of the key, and the
 * commit that ends the first makes the next one ready. So claims read nothing of this, and a key without JobCalls has no rows.
 */

/** A JobCall that has a key, until it is finished or dropped. */
interface CallRow {
  readonly call_id: number;
  readonly key_id: string;
  readonly owner: string;
  readonly key: string;
  readonly holds_on_dead: number;
}

/** A key with a JobCall that is not over. */
interface KeyRow {
  readonly key_id: string;
  readonly owner: string;
  readonly key: string;
  /** The JobCall that is not held. */
  readonly head: number;
  /** Places in the queue of the first and of the last JobCall that waits; `first` is greater if none does. */
  readonly first: number;
  readonly last: number;
  /** Time at which `head` became a dead letter that holds the key; null if it is not one. */
  readonly held_since: number | null;
}

interface PlaceRow {
  readonly key_id: string;
  readonly place: number;
  readonly call_id: number;
}

// Rows of a key are locked after the JobCalls that lead to it, and its queue after the key, so that no two commits wait for
// each other.
const QUEUE: Table<PlaceRow, "key_id" | "place"> = {
  name: "ordered_places",
  key: ["key_id", "place"],
  columns: ["key_id", "place", "call_id"],
  round: 2,
};

const KEYS: Table<KeyRow, "key_id"> = {
  name: "ordered_keys",
  key: ["key_id"],
  columns: ["key_id", "owner", "key", "head", "first", "last", "held_since"],
  leadsTo: ({ key_id, first, last }) => (first > last ? [] : [keyIn(QUEUE, { key_id, place: first })]),
  round: 1,
};

const CALLS: Table<CallRow, "call_id"> = {
  name: "ordered_calls",
  key: ["call_id"],
  columns: ["call_id", "key_id", "owner", "key", "holds_on_dead"],
  leadsTo: ({ key_id }) => [keyIn(KEYS, { key_id })],
};

const schema = ({ schema, integer, churning }: SchemaDialect): string => `
-- JobCalls with a key, until they are finished or dropped.
CREATE TABLE ${schema}ordered_calls (
  call_id       ${integer} PRIMARY KEY,
  key_id        TEXT NOT NULL,
  owner         TEXT NOT NULL,
  key           TEXT NOT NULL,
  holds_on_dead ${integer} NOT NULL
)${churning};
-- Keys with a JobCall that is not over. The JobCall head is not held; those in the places first to last of the queue are.
CREATE TABLE ${schema}ordered_keys (
  key_id     TEXT NOT NULL PRIMARY KEY,
  owner      TEXT NOT NULL,
  key        TEXT NOT NULL,
  head       ${integer} NOT NULL,
  first      ${integer} NOT NULL,
  last       ${integer} NOT NULL,
  held_since ${integer}
)${churning};
CREATE INDEX ordered_keys_held ON ${schema}ordered_keys (held_since) WHERE held_since IS NOT NULL;
CREATE TABLE ${schema}ordered_places (
  key_id  TEXT NOT NULL,
  place   ${integer} NOT NULL,
  call_id ${integer} NOT NULL,
  PRIMARY KEY (key_id, place)
)${churning};
`;

/** Order of the JobCalls that have a key. */
export const FLOW: StoreModule<KeyLedger> = {
  schema: { table: KEYS.name, sql: schema },
  keysOfAnyCall: (callId) => [keyIn(CALLS, { call_id: callId })],

  ordering: {
    keys: (order): RowKey[] => [keyIn(KEYS, { key_id: keyId(order) })],

    add(callId, order, rows) {
      const { owner, key, holdsOnDead } = order;
      const call = { call_id: callId, key_id: keyId(order), owner, key, holds_on_dead: holdsOnDead ? 1 : 0 };
      rows.put(CALLS, call);
      return enter(call, rows);
    },

    addAgain(callId, rows) {
      const call = rows.find(CALLS, { call_id: callId });
      return call === undefined || enter(call, rows);
    },
  },

  on: {
    finished: ({ call }, { rows }) => leave(call.call_id, rows),
    dropped: ({ callId }, { rows }) => leave(callId, rows),
    deadLettered({ call: { call_id }, at }, { rows }) {
      const call = rows.find(CALLS, { call_id });
      const key = call && rows.find(KEYS, { key_id: call.key_id });
      if (key?.head !== call_id) return [];
      if (call?.holds_on_dead === 1) return [{ kind: "put", table: KEYS, row: { ...key, held_since: at } }];
      return next(key, rows);
    },
  },

  forOperator: ["listHeldKeys", "countKeys"],
  lookups: {
    *listHeldKeys({ dialect }, limit): Lookup<HeldKey[]> {
      const { values, add } = parameters(dialect);
      const sql = `SELECT ${KEYS.columns.join()} FROM ${dialect.schema}${KEYS.name}
        WHERE held_since IS NOT NULL ORDER BY held_since, key_id LIMIT ${add(limit)}`;
      const rows = (yield { name: "list_held_keys", sql, values }) as KeyRow[];
      return rows.map(({ owner, key, head: callId, first, last, held_since }) => {
        return { owner, key, callId, waiting: last - first + 1, since: held_since ?? 0 };
      });
    },

    *countKeys({ dialect }): Lookup<KeyCounts[]> {
      const sql = `SELECT owner, count(*) AS keys, count(held_since) AS held,
          CAST(sum(last - first + 1) AS bigint) AS waiting FROM ${dialect.schema}${KEYS.name} GROUP BY owner ORDER BY owner`;
      return (yield { name: "count_keys", sql, values: [] }) as KeyCounts[];
    },
  },
};

function keyId({ owner, key }: Pick<CallOrder, "owner" | "key">): string {
  return createHash("sha256").update(`${owner}\n${key}`).digest("base64url");
}

/** Lets a JobCall have its key, or adds it to the key's queue. @returns true if it has the key */
function enter({ call_id, key_id, owner, key }: CallRow, rows: Rows): boolean {
  const row = rows.find(KEYS, { key_id });
  if (row === undefined) {
    rows.put(KEYS, { key_id, owner, key, head: call_id, first: 1, last: 0, held_since: null });
    return true;
  }
  if (row.head === call_id) {
    rows.put(KEYS, { ...row, held_since: null });
    return true;
  }
  const place = row.last + 1;
  rows.put(QUEUE, { key_id, place, call_id });
  rows.put(KEYS, { ...row, last: place });
  return false;
}

/** Forgets a JobCall that is over. */
function leave(call_id: number, rows: Pick<Rows, "find">): Effect[] {
  const call = rows.find(CALLS, { call_id });
  if (call === undefined) return [];
  const key = rows.find(KEYS, { key_id: call.key_id });
  const forget: Effect = { kind: "remove", ...keyIn(CALLS, { call_id }) };
  // A dead letter that did not hold its key lost it to the next JobCall.
  return key?.head === call_id ? [forget, ...next(key, rows)] : [forget];
}

/** Hands a key over to the JobCall that has waited longest. */
function next(key: KeyRow, rows: Pick<Rows, "find">): Effect[] {
  const { key_id, first, last } = key;
  const place = first > last ? undefined : rows.find(QUEUE, { key_id, place: first });
  if (place === undefined) return [{ kind: "remove", ...keyIn(KEYS, { key_id }) }];
  const head = place.call_id;
  return [
    { kind: "remove", ...keyIn(QUEUE, { key_id, place: first }) },
    { kind: "put", table: KEYS, row: { ...key, head, first: first + 1, held_since: null } },
    { kind: "ready", callId: head },
  ];
}
