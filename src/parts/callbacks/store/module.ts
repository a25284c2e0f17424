import { stringify } from "lossless-json";
import { hasFailed } from "../../../core/result-answer.ts";
import { type ListDialect, type Lookup, parameters } from "../../../store/list-dialect.ts";
import { type Announcement, callEnded, callOf, describeCall } from "../../../store/machine/announcements.ts";
import { add, type Effect, type Known, paymentOf, type Reactions } from "../../../store/machine/changes.ts";
import type { AnyModule, StoreModule } from "../../../store/module.ts";
import { type SoldPayment, transactionOf } from "../../../store/payment-row.ts";
import { endedRows, keyIn, type Table } from "../../../store/rows.ts";
import {
  CALLBACK_KEPT_MS,
  CALLBACK_TRIED_MS,
  CALLBACK_URL,
  type Callback,
  type CallbackCounts,
  type CallbackLedger,
  type CallbackState,
} from "./ledger.ts";
import { CALLBACK_COLUMNS, type CallbackRow, ENDPOINT_COLUMNS, type EndpointRow, toCallback } from "./row.ts";
import { afterAttempt, retriedNow, toEndpointRow } from "./rules.ts";
import { callbacksSchema } from "./schema.ts";

const TABLE: Table<CallbackRow, "id"> = {
  name: "callbacks",
  key: ["id"],
  columns: CALLBACK_COLUMNS,
};

/** The operator's URLs. */
const ENDPOINTS: Table<EndpointRow, "url"> = {
  name: "callback_endpoints",
  key: ["url"],
  columns: ENDPOINT_COLUMNS,
};

/** Callbacks to operators and buyers, with the JSON that they get. */
const REACTIONS: Reactions = {
  paymentDecided({ payment }, known) {
    const { state, updated_at: at, settlement, reason } = payment;
    const event = (event: string, more: object) =>
      called({ event, at, data: () => ({ ...soldAs(payment), ...more }) }, known);
    return [
      ...(state === "settled" ? event("payment.settled", { transaction: transactionOf(settlement) }) : []),
      ...(state === "unresolved" ? event("payment.unresolved", { reason }) : []),
      // For its client, a call that is charged after it ran ends once it has run and its charge is certain.
      ...(payment.ceiling !== null && isCertain(payment) && known.hasSucceeded(payment.call_id)
        ? called(callEnded(callOf(payment), statusOf(payment), at), known)
        : []),
    ];
  },

  finished({ call, charge, status: httpStatus, at }, known) {
    // Nothing is charged, so the call has ended.
    if (hasFailed(httpStatus)) return called(callEnded(call, "failed", at, httpStatus), known);
    const payment = charge === null ? undefined : paymentOf(call, known);
    if (payment !== undefined && !isCertain(payment)) return [];
    const status = payment === undefined ? "succeeded" : statusOf(payment);
    return called(callEnded(call, status, at), known);
  },

  deadLettered({ call, reason, at }, known) {
    const data = () => ({ ...describeCall(call), attempts: call.attempts, reason });
    return [
      ...called({ event: "dead_letter", at, data }, known),
      ...called(callEnded(call, "failed", at), known),
    ];
  },

  announced: ({ announcement }, known) => called(announcement, known),
};

const ENDED = endedRows(TABLE.name, "ended_at", 200);

const COLUMN_LIST = TABLE.columns.map((column) => `callbacks.${column}`).join(", ");

const keyOf = (id: number) => [keyIn(TABLE, { id })];

interface CountedCallbacks {
  readonly callbacks: readonly { readonly state: CallbackState; readonly n: number }[];
  readonly oldestCallback: readonly { readonly at: number | null }[];
}

/** Number of callbacks in each state, and the time of the oldest pending callback. */
const COUNTED: NonNullable<AnyModule["counted"]> = {
  queries: {
    callbacks: ({ schema }) => ({
      values: { state: "state", n: "count(*)" },
      from: `FROM ${schema}callbacks GROUP BY state`,
    }),
    oldestCallback: ({ schema, indexedBy }) => ({
      values: { at: "min(at)" },
      from: `FROM ${schema}callbacks${indexedBy("callbacks_pending")} WHERE state = 'pending'`,
    }),
  },
  totals({ callbacks: counts, oldestCallback: [oldest] }: CountedCallbacks, { sums }) {
    const states = { pending: 0, sent: 0, dead: 0 };
    for (const { state, n } of counts) states[state] = n;
    const at = oldest?.at ?? null;
    const callbacks: CallbackCounts = { states, ...(at === null ? {} : { oldestAt: at }) };
    return { sums: { ...sums, callbacks } };
  },
};

/** Callbacks to operators and buyers. */
export const CALLBACKS: StoreModule<CallbackLedger> = {
  schema: { table: TABLE.name, sql: callbacksSchema },
  forOperator: ["listCallbacks"],
  counted: COUNTED,
  on: REACTIONS,
  smallTables: [ENDPOINTS],
  onClockStep: `UPDATE ${TABLE.name} SET due_at = due_at + ?1, give_up_at = give_up_at + ?1 WHERE state = 'pending'`,

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
        const row = afterAttempt(rows.find(TABLE, { id }), attempts, outcome, now);
        if (row !== undefined) rows.put(TABLE, row);
        return row && toCallback(row);
      },
    },

    retryCallback: {
      keys: keyOf,
      run({ rows }, now, id) {
        const known = rows.find(TABLE, { id });
        const row = retriedNow(known, now);
        if (row !== undefined) rows.put(TABLE, row);
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
};

/** The query jumps from host to host in the index, however many callbacks each host has. */
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

/** Makes a callback for each URL that subscribes to an event. */
function called({ event, at, data, boughtCall, forBuyer }: Announcement, known: Known): Effect[] {
  const buyersUrl = boughtCall === undefined ? undefined : known.notes(boughtCall)?.[CALLBACK_URL];
  const endpoints = known.rows.all(ENDPOINTS).filter(({ events }) => events.includes(` ${event} `));
  if (endpoints.length === 0 && buyersUrl === undefined) return [];
  const described = data();
  const callback = (url: string, host: string, is_buyers: 0 | 1, shown: object): Effect => {
    const of = { event, call_id: described.call_id, at, data: stringify(shown) ?? "" };
    const due = { due_at: at, give_up_at: at + CALLBACK_TRIED_MS };
    const fresh = { state: "pending", attempts: 0, reason: null, ended_at: null } as const;
    return add(TABLE, { ...of, url, host, is_buyers, ...fresh, ...due });
  };
  const callbacks = endpoints.map(({ url, host }) => callback(url, host, 0, described));
  if (buyersUrl === undefined) return callbacks;
  const shown = forBuyer === undefined ? described : forBuyer(described);
  return [...callbacks, callback(buyersUrl, new URL(buyersUrl).host, 1, shown)];
}

function soldAs({ call_id, service_id, job_index, network, asset, symbol, amount, payer }: SoldPayment) {
  return {
    call_id,
    service_id: BigInt(service_id),
    job_id: job_index,
    network,
    asset,
    symbol,
    amount,
    payer,
  };
}

/** Returns true once nothing more is to be charged. */
function isCertain({ state }: SoldPayment): boolean {
  return state === "settled" || state === "failed" || state === "released";
}

/**
 * Status in the callback to the buyer of a JobCall that is charged after it ran, once its charge is decided. If the charge
 * failed, the buyer's status is failed.
 */
function statusOf({ state }: SoldPayment): "failed" | "succeeded" {
  return state === "failed" ? "failed" : "succeeded";
}
