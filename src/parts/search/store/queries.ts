import { oneSpelling } from "../../../core/payment.ts";
import { type Add, type Lookup, parameters, type Query } from "../../../store/list-dialect.ts";
import { ListQueries } from "../../../store/list-queries.ts";
import { CALL_DETAILS_COLUMNS, type CallDetailsRow, toCallDetails } from "../../../store/listed-call-row.ts";
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

/**
 * Entries of each kind that a search reads. It reads more than it returns, because the rows of some entries may be deleted, or
 * differ from the text after the beginning that the index has.
 */
const READ_OF_KIND = 3 * FOUND_AT_ONCE;
/** Character that sorts after every character of a term. */
const AFTER_ALL = "\u{10ffff}";
/** Text that sorts after every account, in the order of any language. */
const AFTER_ACCOUNTS = "z".repeat(64);
/** Highest power of ten by which digits are completed to a call ID, because call IDs have up to 16 digits. */
const LARGEST_SIZE = 1e15;
/** Age from which a JobCall that is not in the index makes a search incomplete. */
const LATE_MS = 120_000;
/** Number of index entries that one step reads, to delete entries of calls that are gone. */
const LOOKED_AT = 200;

/** SQL of the next entries of the index. */
export const entriesAfter = (schema: string, after: string): string =>
  `SELECT DISTINCT entry FROM ${schema}search_terms WHERE entry > ${after} ORDER BY entry LIMIT ${LOOKED_AT}`;

/** SQL condition that the row of a term was deleted. @param row name of the term's row in the query */
export const isGone = (schema: string, row: string): string => {
  const lacks = (table: string, id = "call_id") =>
    `NOT EXISTS (SELECT 1 FROM ${schema}${table} AS known WHERE known.${id} = ${row}.entry)`;
  return `CASE ${row}.kind WHEN 'metadata' THEN ${lacks("job_calls")} AND ${lacks("finished_calls")}
    WHEN 'request' THEN ${lacks("refused_payments", "id")} ELSE ${lacks("payments")} END`;
};

const KINDS: readonly TermKind[] = ["transaction", "purchase_name", "request", "metadata"];

/** Row of the result: a call, or another finding as JSON. */
type FoundRow =
  | ({ readonly name: "call"; readonly json: null } & CallDetailsRow)
  | { readonly name: keyof FoundValues; readonly json: string };

/** Types of the JSON values by the names of the result's rows. */
interface FoundValues {
  readonly term: SearchTerm;
  readonly number: { readonly id: number };
  readonly payer: { readonly payer: string; readonly place: number };
  readonly payment: { readonly id: number; readonly purchase: string | null };
  readonly request: {
    readonly id: number;
    readonly at: number;
    readonly request: string;
    readonly service: string;
    readonly job: number;
    readonly payer: string | null;
    readonly code: string;
  };
  readonly late: { readonly late: number };
}

/**
 * Finds the values that begin with a text, with a bounded number of index reads. It is one statement, because a second
 * statement would need another round trip.
 */
export function* search(asked: Asked, text: string): Lookup<Found> {
  const rows = (yield searchQuery(asked, text)) as readonly FoundRow[];
  const named = <Name extends keyof FoundValues>(wanted: Name) =>
    rows.flatMap(({ name, json }) =>
      name === wanted && json ? [JSON.parse(json) as FoundValues[Name]] : [],
    );
  const terms = named("term").sort(byTerm);
  const ofKind = (wanted: TermKind) => terms.filter(({ kind }) => kind === wanted);
  const names = new Map(named("payment").map(({ id, purchase }) => [id, purchase]));
  const wanted = folded(text);
  const transactions = ofKind("transaction").flatMap(({ entry: callId, term: value }): FoundPayment[] =>
    names.has(callId) ? [{ callId, value }] : [],
  );
  const purchaseNames = entriesOf(ofKind("purchase_name")).flatMap((callId): FoundPayment[] => {
    const value = names.get(callId);
    return value && folded(value).startsWith(wanted) ? [{ callId, value }] : [];
  });
  const account = oneSpelling(text);
  return {
    ...{ transactions, purchaseNames, withMetadata: entriesOf(ofKind("metadata")) },
    numbers: named("number")
      .map(({ id }) => id)
      .sort(byDigits)
      .slice(0, FOUND_AT_ONCE),
    payers: named("payer")
      .sort((one, other) => one.place - other.place)
      // The database may order accounts in a language whose letters have no case.
      .flatMap(({ payer }) => (payer.startsWith(account) ? [payer] : [])),
    requests: named("request")
      .sort((one, other) => other.id - one.id)
      .flatMap((request) => requestWith(wanted, request)),
    calls: rows.flatMap((row) => (row.name === "call" ? [toCallDetails(row)] : [])),
    isIncomplete: named("late").some(({ late }) => late === 1),
  };
}

/** Orders terms by their bytes, as the index does, and the newest first among equal terms. */
function byTerm(one: SearchTerm, other: SearchTerm): number {
  return Buffer.compare(Buffer.from(one.term), Buffer.from(other.term)) || other.entry - one.entry;
}

function entriesOf(terms: readonly SearchTerm[]): number[] {
  return [...new Set(terms.map(({ entry }) => entry))];
}

/** Orders call IDs: short call IDs first, and the newest first among call IDs of one length. */
function byDigits(one: number, other: number): number {
  return String(one).length - String(other).length || other - one;
}

function requestWith(
  wanted: string,
  { request: requestId, payer, code, at, service, job: jobIndex }: FoundValues["request"],
): FoundRequest[] {
  if (![requestId, payer ?? ""].some((value) => folded(value).startsWith(wanted))) return [];
  return [{ ...{ requestId, payer: payer ?? undefined, code, at }, serviceId: BigInt(service), jobIndex }];
}

function searchQuery(asked: Asked, text: string): Query {
  const { dialect } = asked;
  const { schema, jsonObject } = dialect;
  const { values, add } = parameters(dialect);
  const digits = /^#?([1-9][0-9]{0,14})$/.exec(text)?.[1];
  const account = oneSpelling(text);
  const isAccount = /^[0-9a-z]+$/i.test(account);
  const tables = [
    `terms (kind, entry, term) AS (${KINDS.map((kind) => termsOf(asked, kind, text, add)).join(" UNION ALL ")})`,
    ...(digits === undefined ? [] : [`numbers (id) AS (${numbersFrom(asked, digits, add)})`]),
    ...(isAccount ? [`payers (payer, place) AS (${payersFrom(asked, account, add)})`] : []),
  ];
  const entries = (kinds: string) => `SELECT entry FROM terms WHERE kind ${kinds}`;
  const found = [entries("<> 'request'"), ...(digits === undefined ? [] : ["SELECT id FROM numbers"])].join(
    " UNION ALL ",
  );
  const isFound = dialect.among("call.call_id", found);
  const [open, finished] = new ListQueries(asked).selectCalls(isFound, add, "'call' AS name, NULL AS json, ");
  const others = CALL_DETAILS_COLUMNS.map(() => "NULL").join();
  const select = (name: keyof FoundValues, members: Readonly<Record<string, string>>, from: string) => {
    const json = Object.entries(members).map(([member, value]) => `'${member}', ${value}`);
    return `SELECT '${name}', CAST(${jsonObject}(${json.join()}) AS text), ${others} ${from}`;
  };
  const request = {
    ...{ id: "id", at: "at", request: "request_id", service: "service_id", job: "job_index" },
    ...{ payer: "payer", code: "code" },
  };
  const selects = [
    // Postgres takes the types of the columns from the first two queries, so each column has a value in one of these.
    ...[finished, open],
    select("term", { kind: "kind", entry: "entry", term: "term" }, "FROM terms"),
    ...(digits === undefined ? [] : [select("number", { id: "id" }, "FROM numbers")]),
    ...(isAccount
      ? [select("payer", { payer: "payer", place: "place" }, "FROM payers WHERE payer IS NOT NULL")]
      : []),
    select(
      "payment",
      { id: "call_id", purchase: "purchase_name" },
      `FROM ${schema}payments WHERE ${dialect.among("call_id", entries("IN ('transaction', 'purchase_name')"))}`,
    ),
    select(
      "request",
      request,
      `FROM ${schema}refused_payments WHERE ${dialect.among("id", entries("= 'request'"))}`,
    ),
    select("late", { late: lateness(asked, add) }, ""),
  ];
  const sql = `WITH RECURSIVE ${tables.join(",\n")}\n${selects.join("\nUNION ALL ")}`;
  // All texts of one form share one statement.
  return {
    name: `search${digits === undefined ? "" : "_number"}${isAccount ? "_account" : ""}`,
    sql,
    values,
  };
}

/** SQL of the terms of one kind that begin with a text. */
function termsOf({ dialect }: Asked, kind: TermKind, text: string, add: Add): string {
  const term = termOf(kind, text);
  return `SELECT kind, entry, term FROM (
    SELECT kind, entry, term FROM ${dialect.schema}search_terms${dialect.indexedBy("search_terms_by_term")}
     WHERE kind = '${kind}' AND term >= ${add(term)} AND term < ${add(`${term}${AFTER_ALL}`)}
     ORDER BY term, entry DESC LIMIT ${READ_OF_KIND}) AS of_${kind}`;
}

/** SQL of call IDs whose decimal digits begin with some digits: the newest with each number of digits. */
function numbersFrom({ dialect: { schema } }: Asked, digits: string, add: Add): string {
  const ofSizes: string[] = [];
  for (let size = 1; size <= LARGEST_SIZE; size *= 10) {
    const [from, end] = [Number(digits) * size, (Number(digits) + 1) * size];
    const [least, below] = [from, end].map((id) => add(Math.min(id, Number.MAX_SAFE_INTEGER)));
    const ofTables = ["job_calls", "finished_calls", "payments"].map(
      (table) => `SELECT call_id FROM (SELECT call_id FROM ${schema}${table}
        WHERE call_id >= ${least} AND call_id < ${below} ORDER BY call_id DESC LIMIT ${FOUND_AT_ONCE}) AS of_${table}`,
    );
    ofSizes.push(
      `SELECT call_id FROM (${ofTables.join(" UNION ")} ORDER BY call_id DESC LIMIT ${FOUND_AT_ONCE}) AS of_${size}`,
    );
  }
  return ofSizes.join(" UNION ALL ");
}

/**
 * SQL of payers that begin with a text. It skips from payer to payer in the index, so that the number of payments of a payer
 * does not matter.
 */
function payersFrom({ dialect }: Asked, account: string, add: Add): string {
  const payments = `${dialect.schema}payments${dialect.indexedBy("payments_by_payer")}`;
  const [from, end] = [add(account), add(`${account}${AFTER_ACCOUNTS}`)];
  return `SELECT (SELECT min(payer) FROM ${payments} WHERE payer >= ${from} AND payer <= ${end}), 1
       UNION ALL
      SELECT (SELECT min(payer) FROM ${payments} WHERE payer > payers.payer AND payer <= ${end}), place + 1
        FROM payers WHERE payers.payer IS NOT NULL AND place < ${2 * FOUND_AT_ONCE}`;
}

/** SQL that is 1 if a JobCall that is not in the index was accepted long ago. */
function lateness({ dialect, now }: Asked, add: Add): string {
  const { schema } = dialect;
  const next = (table: string) =>
    `(SELECT enqueued_at FROM ${schema}${table} WHERE call_id > COALESCE(
        (SELECT entry FROM ${schema}search_positions WHERE source = 'calls'), 0) ORDER BY call_id LIMIT 1)`;
  const late = `${dialect.now(add(now()))} - ${LATE_MS}`;
  return `CASE WHEN COALESCE(${next("job_calls")} < ${late}, FALSE)
      OR COALESCE(${next("finished_calls")} < ${late}, FALSE) THEN 1 ELSE 0 END`;
}
