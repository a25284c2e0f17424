import { type Lookup, parameters } from "../../../store/list-dialect.ts";
import type { Asked } from "../../../store/module.ts";
import {
  type SearchPosition,
  type SearchSource,
  type SearchTerm,
  termOf,
  type UnindexedRows,
} from "./index-contract.ts";

/** Rows of a table that one step reads. */
const READ_AT_ONCE = 200;

/** A row that is to be indexed. */
interface SourceRow {
  readonly entry: number;
  readonly at: number;
  readonly head: Uint8Array | ArrayBuffer | null;
  /** Values of the row, as stored. */
  readonly first: string | null;
  readonly second: string | null;
  /** Table that the row is from. */
  readonly place: string;
  /** 1 if the row is old enough. */
  readonly is_due: 0 | 1;
}

type Add = ReturnType<typeof parameters>["add"];

interface Source {
  /** SQL of the rows after a position, in order, at most {@link READ_AT_ONCE} of each table. */
  sql(asked: Asked, after: SearchPosition, isDue: (at: string) => string, add: Add): string;
  terms(row: SourceRow): readonly SearchTerm[];
}

const NO_HEAD = "CAST(NULL AS bytea) AS head";
const NO_TEXT = "CAST(NULL AS TEXT)";

const SOURCES: Readonly<Record<SearchSource, Source>> = {
  calls: {
    sql({ dialect: { schema } }, { entry }, isDue, add) {
      const after = add(entry);
      const next = (place: string, columns: string, from: string, at: string) =>
        `SELECT * FROM (SELECT ${place}.call_id AS entry, ${at} AS at, ${columns}, ${NO_TEXT} AS second, '${place}' AS place,
              ${isDue(at)} FROM ${schema}${from} WHERE ${place}.call_id > ${after}
           ORDER BY ${place}.call_id LIMIT ${READ_AT_ONCE}) AS of_${place}`;
      return [
        next(
          "job_calls",
          `substr(encoded, 1, head_bytes) AS head, ${NO_TEXT} AS first`,
          `job_calls LEFT JOIN ${schema}job_bodies ON job_bodies.call_id = job_calls.call_id`,
          "enqueued_at",
        ),
        next("finished_calls", `head, ${NO_TEXT} AS first`, "finished_calls", "enqueued_at"),
        next("payments", `${NO_HEAD}, purchase_name AS first`, "payments", "created_at"),
      ].join(" UNION ALL ");
    },
    terms: ({ entry, first }) =>
      first === null ? [] : [{ kind: "purchase_name", term: termOf("purchase_name", first), entry }],
  },

  settled: {
    sql({ dialect: { schema, indexedBy } }, { at, entry }, isDue, add) {
      const [time, id] = [add(at), add(entry)];
      return `SELECT call_id AS entry, updated_at AS at, ${NO_HEAD}, settlement AS first, ${NO_TEXT} AS second, 'payments' AS place,
             ${isDue("updated_at")} FROM ${schema}payments${indexedBy("payments_settled")}
         WHERE state = 'settled' AND updated_at >= ${time} AND (updated_at > ${time} OR call_id > ${id})
         ORDER BY updated_at, call_id LIMIT ${READ_AT_ONCE}`;
    },
    terms: ({ entry, first }) => transactionTerm(entry, first),
  },

  refused: {
    sql: ({ dialect: { schema } }, { entry }, isDue, add) =>
      `SELECT id AS entry, at, ${NO_HEAD}, request_id AS first, payer AS second, 'refused_payments' AS place,
         ${isDue("at")} FROM ${schema}refused_payments WHERE id > ${add(entry)} ORDER BY id LIMIT ${READ_AT_ONCE}`,
    terms: ({ entry, first, second }) =>
      [first, second].flatMap((value) =>
        value === null ? [] : [{ kind: "request", term: termOf("request", value), entry }],
      ),
  },
};

/** Returns the term of the transaction that a settlement response names. */
export function transactionTerm(callId: number, settlement: string | null): SearchTerm[] {
  const { transaction } = JSON.parse(settlement ?? "{}") as { readonly transaction?: unknown };
  if (typeof transaction !== "string" || transaction === "") return [];
  return [{ kind: "transaction", term: termOf("transaction", transaction), entry: callId }];
}

/**
 * Reads the next rows of a source. It stops before the first row that is too young, and before a row that unread rows of
 * another table may precede.
 */
export function* listUnindexed(
  asked: Asked,
  source: SearchSource,
  after: SearchPosition,
  minAgeMs: number,
): Lookup<UnindexedRows> {
  const { values, add } = parameters(asked.dialect);
  const until = `${asked.dialect.now(add(asked.now()))} - CAST(${add(minAgeMs)} AS bigint)`;
  const isDue = (at: string) => `CASE WHEN ${at} <= ${until} THEN 1 ELSE 0 END AS is_due`;
  const sql = SOURCES[source].sql(asked, after, isDue, add);
  const all = (yield { name: `list_unindexed_${source}`, sql, values }) as SourceRow[];
  const lastEntry = source === "settled" ? Number.MAX_SAFE_INTEGER : lastOfFullTables(all);
  const complete = all.filter(({ entry }) => entry <= lastEntry);
  const sorted = complete.toSorted(source === "settled" ? byTime : byEntry);
  const young = minAgeMs === 0 ? -1 : sorted.findIndex(({ is_due }) => is_due === 0);
  const rows = young < 0 ? sorted : sorted.slice(0, young);
  const last = rows.at(-1);
  return {
    terms: rows.flatMap(SOURCES[source].terms),
    heads: rows.flatMap(({ entry: callId, head }) =>
      head === null ? [] : [{ callId, head: new Uint8Array(head) }],
    ),
    end: last && { at: last.at, entry: last.entry },
    hasMore: young < 0 && all.length >= READ_AT_ONCE,
  };
}

/** Entry up to which all rows of each table were read. */
function lastOfFullTables(rows: readonly SourceRow[]): number {
  const read = new Map<string, { count: number; last: number }>();
  for (const { place, entry } of rows) {
    const { count, last } = read.get(place) ?? { count: 0, last: 0 };
    read.set(place, { count: count + 1, last: Math.max(last, entry) });
  }
  const full = [...read.values()].filter(({ count }) => count === READ_AT_ONCE);
  return Math.min(...full.map(({ last }) => last), Number.MAX_SAFE_INTEGER);
}

function byEntry(one: SourceRow, other: SourceRow): number {
  return one.entry - other.entry;
}

function byTime(one: SourceRow, other: SourceRow): number {
  return one.at - other.at || one.entry - other.entry;
}
