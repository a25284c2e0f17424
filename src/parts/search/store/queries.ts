import { oneSpelling } from "../../../core/payment.ts";
import { type Lookup, parameters, type Query } from "../../../store/list-dialect.ts";
import { ListQueries } from "../../../store/list-queries.ts";
import { type CallDetailsRow, toCallDetails } from "../../../store/listed-call-row.ts";
import type { Asked } from "../../../store/module.ts";
import {
  FOUND_AT_ONCE,
  type Found,
  type FoundPayment,
  type FoundRequest,
  folded,
  type SearchTerm,
  type TermKind,
  termOf,
} from "./index-contract.ts";

/** Entries of the index that a search reads of each kind: some may be gone, or be alike only at their beginnings. */
const READ_OF_KIND = 3 * FOUND_AT_ONCE;
/** Above every character of a term. */
const AFTER_ALL = "\u{10ffff}";
/** Above every character of an account, in the order of any language. */
const AFTER_ACCOUNTS = "z".repeat(64);
/** Age from which a JobCall that is not in the index makes a search incomplete. */
const LATE_MS = 120_000;
/** Entries of the index that one step looks at, to forget those that are gone. */
const LOOKED_AT = 200;

/** SQL of the next entries of the index. */
export const entriesAfter = (schema: string, after: string): string =>
  `SELECT DISTINCT entry FROM ${schema}search_terms WHERE entry > ${after} ORDER BY entry LIMIT ${LOOKED_AT}`;

/** SQL condition: what a term leads to was forgotten. @param row name of the term's row in the query */
export const isGone = (schema: string, row: string): string => {
  const lacks = (table: string, id = "call_id") =>
    `NOT EXISTS (SELECT 1 FROM ${schema}${table} AS known WHERE known.${id} = ${row}.entry)`;
  return `CASE ${row}.kind WHEN 'metadata' THEN ${lacks("job_calls")} AND ${lacks("finished_calls")}
    WHEN 'request' THEN ${lacks("refused_payments", "id")} ELSE ${lacks("payments")} END`;
};

/** Finds what begins with a text, with a bounded number of reads of indexes. */
export function* search(asked: Asked, text: string): Lookup<Found> {
  const numbers = yield* numbersFrom(asked, text);
  const settled = yield* termsOf(asked, "transaction", text);
  const paymentEntries = yield* entriesOf(asked, "payment_id", text);
  const withMetadata = yield* entriesOf(asked, "metadata", text);
  const names = yield* namesOf(asked, [...settled.map(({ entry }) => entry), ...paymentEntries]);
  const wanted = folded(text);
  const transactions = settled.flatMap(({ entry: callId, term: value }): FoundPayment[] =>
    names.has(callId) ? [{ callId, value }] : [],
  );
  const paymentIds = paymentEntries.flatMap((callId): FoundPayment[] => {
    const value = names.get(callId);
    return value && folded(value).startsWith(wanted) ? [{ callId, value }] : [];
  });
  const paid = [...transactions, ...paymentIds].map(({ callId }) => callId);
  const callIds = new Set([...numbers, ...paid, ...withMetadata]);
  return {
    ...{ numbers, transactions, paymentIds, withMetadata },
    payers: yield* payersFrom(asked, text),
    requests: yield* requestsFrom(asked, text),
    calls: yield* callsOf(asked, [...callIds]),
    isIncomplete: yield* isIncomplete(asked),
  };
}

function* termsOf(
  asked: Asked,
  kind: TermKind,
  text: string,
): Lookup<readonly Pick<SearchTerm, "entry" | "term">[]> {
  const { dialect } = asked;
  const { values, add } = parameters(dialect);
  const term = termOf(kind, text);
  const sql = `SELECT entry, term FROM ${dialect.schema}search_terms${dialect.indexedBy("search_terms_by_term")}
    WHERE kind = ${add(kind)} AND term >= ${add(term)} AND term < ${add(`${term}${AFTER_ALL}`)}
    ORDER BY term, entry DESC LIMIT ${READ_OF_KIND}`;
  return (yield { sql, values }) as SearchTerm[];
}

function* entriesOf(asked: Asked, kind: TermKind, text: string): Lookup<number[]> {
  return [...new Set((yield* termsOf(asked, kind, text)).map(({ entry }) => entry))];
}

/** Finds call IDs whose decimal digits begin with the digits of the text. */
function* numbersFrom({ dialect }: Asked, text: string): Lookup<number[]> {
  const digits = /^#?([1-9][0-9]{0,14})$/.exec(text)?.[1];
  if (digits === undefined) return [];
  const { schema } = dialect;
  const tables = ["job_calls", "finished_calls", "payments"];
  const largest = tables.map((table) => `SELECT max(call_id) AS id FROM ${schema}${table}`);
  const last = ((yield { sql: largest.join(" UNION ALL "), values: [] }) as { id: number | null }[]).reduce(
    (most, { id }) => Math.max(most, id ?? 0),
    0,
  );
  const found = new Set<number>();
  for (let size = 1; Number(digits) * size <= last && found.size < FOUND_AT_ONCE; size *= 10) {
    const { values, add } = parameters(dialect);
    const [from, end] = [add(Number(digits) * size), add((Number(digits) + 1) * size)];
    const parts = tables.map(
      (table) => `SELECT call_id FROM (SELECT call_id FROM ${schema}${table}
        WHERE call_id >= ${from} AND call_id < ${end} ORDER BY call_id DESC LIMIT ${FOUND_AT_ONCE}) AS of_${table}`,
    );
    const sql = `${parts.join(" UNION ")} ORDER BY call_id DESC LIMIT ${FOUND_AT_ONCE}`;
    for (const { call_id } of (yield { sql, values }) as { readonly call_id: number }[]) found.add(call_id);
  }
  return [...found].slice(0, FOUND_AT_ONCE);
}

/** Finds payers from one to the next in their index, however many payments each has. */
function* payersFrom({ dialect }: Asked, text: string): Lookup<string[]> {
  const account = oneSpelling(text);
  if (!/^[0-9a-z]+$/i.test(account)) return [];
  const { values, add } = parameters(dialect);
  const payments = `${dialect.schema}payments${dialect.indexedBy("payments_by_payer")}`;
  const [from, end, limit] = [add(account), add(`${account}${AFTER_ACCOUNTS}`), 2 * FOUND_AT_ONCE];
  const sql = `WITH RECURSIVE next (payer) AS (
      SELECT (SELECT min(payer) FROM ${payments} WHERE payer >= ${from} AND payer <= ${end})
       UNION ALL
      SELECT (SELECT min(payer) FROM ${payments} WHERE payer > next.payer AND payer <= ${end})
        FROM next WHERE payer IS NOT NULL)
    SELECT payer FROM next WHERE payer IS NOT NULL LIMIT ${limit}`;
  const rows = (yield { sql, values }) as { readonly payer: string }[];
  // The database may order accounts in a language whose letters have no case.
  return rows.flatMap(({ payer }) => (payer.startsWith(account) ? [payer] : []));
}

function* requestsFrom(asked: Asked, text: string): Lookup<FoundRequest[]> {
  const ids = yield* entriesOf(asked, "request", text);
  const { values, add } = parameters(asked.dialect);
  const sql = `SELECT id, at, request_id, service_id, job_index, payer, code FROM ${asked.dialect.schema}refused_payments
    WHERE id IN (${ids.map(add).join()}) ORDER BY id DESC`;
  const rows = (ids.length === 0 ? [] : yield { sql, values }) as {
    readonly at: number;
    readonly request_id: string;
    readonly service_id: string;
    readonly job_index: number;
    readonly payer: string | null;
    readonly code: string;
  }[];
  const wanted = folded(text);
  return rows.flatMap(({ at, request_id, service_id, job_index, payer, code }) =>
    [request_id, payer ?? ""].some((value) => folded(value).startsWith(wanted))
      ? [
          {
            ...{ requestId: request_id, payer: payer ?? undefined, code, at },
            ...{ serviceId: BigInt(service_id), jobIndex: job_index },
          },
        ]
      : [],
  );
}

/** Reads the names that payers gave payments, by call ID; null for a payment without a name. */
function* namesOf({ dialect }: Asked, callIds: readonly number[]): Lookup<Map<number, string | null>> {
  const { values, add } = parameters(dialect);
  const sql = `SELECT call_id, purchase_name FROM ${dialect.schema}payments
    WHERE call_id IN (${callIds.map(add).join()})`;
  const rows = (callIds.length === 0 ? [] : yield { sql, values }) as {
    readonly call_id: number;
    readonly purchase_name: string | null;
  }[];
  return new Map(rows.map(({ call_id, purchase_name }) => [call_id, purchase_name]));
}

function* callsOf(asked: Asked, callIds: readonly number[]): Lookup<Found["calls"]> {
  if (callIds.length === 0) return [];
  const rows: CallDetailsRow[] = [];
  for (const query of new ListQueries(asked).calls(callIds))
    rows.push(...((yield query) as CallDetailsRow[]));
  return rows.map(toCallDetails);
}

/** Checks whether a JobCall that is not in the index was accepted long ago. */
function* isIncomplete({ dialect, now }: Asked): Lookup<boolean> {
  const { values, add } = parameters(dialect);
  const { schema } = dialect;
  const next = (table: string) =>
    `(SELECT enqueued_at FROM ${schema}${table} WHERE call_id > COALESCE(
        (SELECT entry FROM ${schema}search_positions WHERE source = 'calls'), 0) ORDER BY call_id LIMIT 1)`;
  const late = `${dialect.now(add(now()))} - ${LATE_MS}`;
  const sql = `SELECT CASE WHEN COALESCE(${next("job_calls")} < ${late}, FALSE)
      OR COALESCE(${next("finished_calls")} < ${late}, FALSE) THEN 1 ELSE 0 END AS is_incomplete`;
  const query: Query = { sql, values };
  return ((yield query) as { readonly is_incomplete: number }[])[0]?.is_incomplete === 1;
}
