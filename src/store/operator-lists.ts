import type { JobCallOrigin } from "../core/job-call.ts";
import type { PaymentRecord } from "../core/payment.ts";
import { type DeadLetterBox, type DeadLetterGroups, groupedReason } from "./contract/dead-letter-box.ts";
import type {
  CallDetails,
  CallFilter,
  ListedCall,
  OperatorLists,
  Page,
  PaymentFilter,
} from "./contract/operator-lists.ts";
import { type ListDialect, type Lookup, parameters, type Query } from "./list-dialect.ts";
import { type IdRange, ListQueries, type PartQueries } from "./list-queries.ts";
import { type CallDetailsRow, type ListedCallRow, toCallDetails, toListedCall } from "./listed-call-row.ts";
import type { StoreModule } from "./module.ts";
import { type PaymentRow, toPaymentRecord } from "./payment-row.ts";
import { mergePage, type PagePart } from "./rules/pages.ts";

/** Lists for operators. */
export const OPERATOR_LISTS = {
  forOperator: ["listCalls", "listPayments", "findCallDetails", "listDeadLetterGroups"],
  lookups: {
    listCalls: (asked, filter) => listCalls(new ListQueries(asked), filter),
    listPayments: (asked, filter) => listPayments(new ListQueries(asked), filter),
    findCallDetails: (asked, callId) => findCallDetails(new ListQueries(asked), callId),
    listDeadLetterGroups: (asked, limit, text) => listDeadLetterGroups(new ListQueries(asked), limit, text),
  },
} satisfies StoreModule<OperatorLists & DeadLetterBox>;

function* listCalls(queries: ListQueries, filter: CallFilter): Lookup<Page<ListedCall>> {
  const range = yield* idRange(queries, "calls", filter);
  const parts: PagePart<ListedCall>[] = [];
  for (const part of queries.callPage(filter, range)) {
    const { items, floor } = yield* readPart<ListedCallRow>(part, range, filter.limit);
    parts.push({ items: items.map(toListedCall), floor });
  }
  return mergePage(parts, filter.limit);
}

function* listPayments(queries: ListQueries, filter: PaymentFilter): Lookup<Page<PaymentRecord>> {
  const range = yield* idRange(queries, "payments", filter);
  const part = queries.paymentPage(filter, range);
  const { items, floor } = yield* readPart<PaymentRow>(part, range, filter.limit);
  return mergePage([{ items: items.map(toPaymentRecord), floor }], filter.limit);
}

function* findCallDetails(queries: ListQueries, callId: number): Lookup<CallDetails | undefined> {
  for (const query of queries.calls([callId])) {
    const [row] = (yield query) as CallDetailsRow[];
    if (row !== undefined) return toCallDetails(row);
  }
  return undefined;
}

interface GroupRow {
  /** Origin, service, job and the beginning of the reason, separated by blanks. */
  dead_group: string;
  letters: number;
  oldest: number;
  newest: number;
  total_groups: number;
  total_letters: number;
}

function* listDeadLetterGroups(
  queries: ListQueries,
  limit: number,
  text: string | undefined,
): Lookup<DeadLetterGroups> {
  const rows = (yield queries.deadLetterGroups(text === undefined ? limit : undefined)) as GroupRow[];
  const all = rows.map(({ dead_group, letters: count, oldest: oldestDeadAt, newest: newestDeadAt }) => {
    const [origin, serviceId = 0, jobId = 0, ...reason] = dead_group.split(" ");
    return {
      ...{ origin: origin as JobCallOrigin, serviceId: BigInt(serviceId), jobId: BigInt(jobId) },
      ...{ reason: reason.join(" "), count, oldestDeadAt, newestDeadAt },
    };
  });
  if (text === undefined)
    return {
      groups: all,
      totalGroups: rows[0]?.total_groups ?? 0,
      totalDeadLetters: rows[0]?.total_letters ?? 0,
    };
  // The text is compared here, because databases fold letters outside ASCII differently.
  const wanted = groupedReason(text).toLowerCase();
  const found = all.filter(({ reason }) => reason.toLowerCase().includes(wanted));
  return {
    groups: found.slice(0, limit),
    totalGroups: found.length,
    totalDeadLetters: found.reduce((sum, { count }) => sum + count, 0),
  };
}

function* idRange(
  queries: ListQueries,
  of: "calls" | "payments",
  { before = Number.MAX_SAFE_INTEGER, since, until }: Pick<CallFilter, "before" | "since" | "until">,
): Lookup<IdRange> {
  if (since === undefined && until === undefined) return { from: 0, before };
  const times = [since ?? 0, until ?? Number.MAX_SAFE_INTEGER] as const;
  const [ids] = (yield firstIds(queries.dialect, of, times)) as { first: number; second: number }[];
  return { from: ids?.first ?? 0, before: Math.min(before, ids?.second ?? 0) };
}

function* readId(query: Query): Lookup<number | undefined> {
  return ((yield query) as { id: number }[])[0]?.id;
}

function* readPart<Row extends { call_id: number }>(
  { floor, rows }: PartQueries,
  range: IdRange,
  limit: number,
): Lookup<PagePart<Row>> {
  const floorId = floor && (yield* readId(floor));
  const items = (yield rows({ ...range, from: floorId ?? range.from })) as Row[];
  return { items, floor: items.length === limit ? items.at(-1)?.call_id : floorId };
}

/** Tables of each list, with the column of their times. */
const TIMES = {
  calls: [
    ["job_calls", "enqueued_at"],
    ["finished_calls", "enqueued_at"],
  ],
  payments: [["payments", "created_at"]],
} as const;

/**
 * Query for the first IDs of requests from two times on, `first` and `second`. IDs rise with time, but a paid call has the
 * time of its settlement. So the query uses the earliest time of a few neighbouring IDs.
 */
function firstIds(
  dialect: ListDialect,
  list: keyof typeof TIMES,
  times: readonly [first: number, second: number],
): Query {
  const { values, add } = parameters(dialect);
  const [first, second] = times.map((time) => `(${firstId(dialect, list, add(time))})`);
  return { sql: `SELECT ${first} AS first, ${second} AS second`, values };
}

/** SQL of a binary search over `size` IDs from `low` on. */
function firstId({ schema }: ListDialect, list: keyof typeof TIMES, time: string): string {
  const half = "(size + 1) / 2";
  const near = TIMES[list].map(
    ([table, column]) =>
      `SELECT * FROM (SELECT ${column} AS at FROM ${schema}${table} WHERE call_id >= low + ${half} - 1 ORDER BY call_id LIMIT 8) AS ${table}`,
  );
  const earliest = `(SELECT min(at) FROM (${near.join(" UNION ALL ")}) AS near)`;
  const lastIds = TIMES[list].map(([table]) => `SELECT max(call_id) AS id FROM ${schema}${table}`);
  return `
    WITH RECURSIVE search (low, size) AS (
      SELECT CAST(0 AS bigint),
             CAST(COALESCE((SELECT max(id) FROM (${lastIds.join(" UNION ALL ")}) AS ids), -1) + 1 AS bigint)
      UNION ALL
      SELECT CASE WHEN ${earliest} < ${time} THEN low + ${half} ELSE low END, size - ${half}
        FROM search WHERE size > 0)
    SELECT low FROM search WHERE size = 0`;
}
