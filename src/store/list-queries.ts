import type { CallFilter, PaymentFilter } from "./contract/operator-lists.ts";
import { type Add, type ListDialect, parameters, type Query } from "./list-dialect.ts";
import { END_CONDITIONS, finishedSource, isAll, leftOf, openSources, type Source } from "./list-sources.ts";
import type { Asked } from "./module.ts";
import { PAYMENT_COLUMNS } from "./payment-row.ts";

/* Queries of the operator's lists, the same for both dialects. Each query reads one index from its newest entry down, so
   that a page costs the same at any depth. Conditions that the index does not cover are checked entry by entry, for a
   bounded number of entries. */

/** Range of call IDs that contains a page. */
export interface IdRange {
  readonly before: number;
  /** Lowest ID, inclusive. */
  readonly from: number;
}

/** Queries for one part of a page. */
export interface PartQueries {
  /**
   * Finds the `id` at which the search ends; undefined if the search returns every entry that it reads, or reads a short
   * index completely.
   */
  readonly floor: Query | undefined;
  /** Finds the entries in the range, newest first. */
  rows(range: IdRange): Query;
}

/** Largest number of entries that a part of a page reads. */
const MAX_SCANNED = 2_000;
/** Largest number of unfinished calls that a search for text reads, because it reads them with their bodies. */
const MAX_READ = 500;

const OPEN_COLUMNS = `call.call_id, call.origin, call.job_id, call.service_id, call.state, call.visible_at,
  call.attempts, call.subscriber, call.claimed_at, call.dead_reason AS reason, call.enqueued_at, call.dead_at AS finished_at,
  NULL AS status`;
const FINISHED_COLUMNS = `call.call_id, call.origin, call.job_id, call.service_id, call.state, NULL AS visible_at,
  call.attempts, call.subscriber, call.claimed_at, call.reason, call.enqueued_at, call.finished_at, call.status`;
const PAID_COLUMNS = "payment.network, payment.asset, payment.payer, payment.amount, payment.symbol";
const OPEN_HEAD = "substr(body.encoded, 1, body.head_bytes)";
/** Builds the queries for pages of one dialect. */
export class ListQueries {
  readonly dialect: ListDialect;
  /** Replaces the store's time in tests. */
  readonly #now: () => number | null;

  constructor({ dialect, now }: Asked) {
    this.dialect = dialect;
    this.#now = now;
  }

  /** Queries for a page of calls. Unfinished calls are read first, because a call can become finished between the queries. */
  callPage(filter: CallFilter, range: IdRange): PartQueries[] {
    const { state, text, limit } = filter;
    const { schema } = this.dialect;
    const parts: PartQueries[] = [];
    const isEnd = state === "done" || state === "failed" || state === "dropped";
    if (!isEnd) {
      const body =
        text === undefined ? "" : `JOIN ${schema}job_bodies AS body ON body.call_id = call.call_id`;
      const scanned = text === undefined ? MAX_SCANNED : MAX_READ;
      for (const source of openSources(filter)) {
        const joins = `${this.#joined(source, "job_calls")} ${body}`;
        const left = leftOf(source, filter);
        const conditions = (add: Add) => this.#callConditions(left, OPEN_HEAD, add);
        const isExact = isAll(source, left);
        parts.push(
          this.#part({ source, joins, columns: OPEN_COLUMNS, conditions, isExact, scanned, limit }, range),
        );
      }
    }
    if (state === undefined || isEnd) {
      const source = finishedSource(filter);
      const joins = this.#joined(source, "finished_calls");
      const left = leftOf(source, filter);
      const conditions = (add: Add) => this.#callConditions(left, "call.head", add);
      const isExact = isAll(source, left);
      const rest = { columns: FINISHED_COLUMNS, scanned: MAX_SCANNED, limit };
      parts.push(this.#part({ source, joins, conditions, isExact, ...rest }, range));
    }
    return parts;
  }

  paymentPage(filter: PaymentFilter, range: IdRange): PartQueries {
    const { state, jobId, serviceId, payer, limit } = filter;
    const keys: [index: string, column: string, value: string | undefined][] = [
      ["payments_by_payer", "payment.payer", payer],
      ["payments_by_job", "payment.job_index", jobIndexText(jobId)],
      ["payments_by_state", "payment.state", state],
    ];
    const [index, column = "", value] = keys.find(([, , value]) => value !== undefined) ?? [];
    const conditions = (add: Add) => [
      ...keys.flatMap(([name, column, value]) =>
        value === undefined || name === index ? [] : `${column} = ${add(value)}`,
      ),
      ...(serviceId === undefined ? [] : [`payment.service_id = ${add(String(serviceId))}`]),
    ];
    const given = [payer, jobId, state, serviceId].filter((value) => value !== undefined);
    const isExact = given.length === 0 || (given.length === 1 && serviceId === undefined);
    const source: Source = {
      table: "payments AS payment",
      alias: "payment",
      selects: [],
      ...(index === undefined || value === undefined ? {} : { index, keys: [[column, value]] }),
    };
    const columns = PAYMENT_COLUMNS.map((column) => `payment.${column}`).join(", ");
    return this.#part(
      { source, joins: "", columns, conditions, isExact, scanned: MAX_SCANNED, limit },
      range,
    );
  }

  /** @param limit undefined for all groups */
  deadLetterGroups(limit: number | undefined): Query {
    const { schema } = this.dialect;
    const { values, add } = parameters(this.dialect);
    const sql = `
      SELECT dead_group, count(*) AS letters, min(dead_at) AS oldest, max(dead_at) AS newest,
             count(*) OVER () AS total_groups,
             CAST(sum(count(*)) OVER () AS bigint) AS total_letters
        FROM ${schema}job_calls${this.dialect.indexedBy("job_calls_dead_groups")} WHERE state = 'dead'
       GROUP BY dead_group ORDER BY letters DESC, newest DESC, dead_group${limit === undefined ? "" : ` LIMIT ${add(limit)}`}`;
    return { sql, values };
  }

  /** Queries for unfinished calls and for finished calls. */
  calls(callIds: readonly number[]): Query[] {
    const { values, add } = parameters(this.dialect);
    const isWanted = `call.call_id IN (${callIds.map(add).join()})`;
    return this.selectCalls(isWanted, add).map((sql) => ({ sql, values }));
  }

  /**
   * SQL that selects the columns {@link CALL_DETAILS_COLUMNS} of the unfinished calls and of the finished calls.
   * @param isWanted condition on `call.call_id`
   * @param more columns before those columns
   */
  selectCalls(isWanted: string, add: Add, more = ""): [open: string, finished: string] {
    const { schema } = this.dialect;
    const now = this.dialect.now(add(this.#now()));
    const select = (columns: string, from: string) => `
      SELECT ${more}${columns}, ${PAID_COLUMNS}, call.history, ${now} AS now
        FROM ${from} LEFT JOIN ${schema}payments AS payment ON payment.call_id = call.call_id WHERE ${isWanted}`;
    const body = `LEFT JOIN ${schema}job_bodies AS body ON body.call_id = call.call_id`;
    const result = `LEFT JOIN ${schema}results AS result ON result.call_id = call.call_id`;
    return [
      select(
        `${OPEN_COLUMNS}, ${OPEN_HEAD} AS head, NULL AS result_bytes, call.charge_so_far`,
        `${schema}job_calls AS call ${body}`,
      ),
      select(
        `${FINISHED_COLUMNS}, call.head, COALESCE(length(result.body), result.stored_bytes) AS result_bytes, NULL AS charge_so_far`,
        `${schema}finished_calls AS call ${result}`,
      ),
    ];
  }

  /** SQL of the source, joined with the table that it lacks. */
  #joined({ alias }: Source, calls: "job_calls" | "finished_calls"): string {
    const { schema } = this.dialect;
    return alias === "call"
      ? `LEFT JOIN ${schema}payments AS payment ON payment.call_id = call.call_id`
      : `JOIN ${schema}${calls} AS call ON call.call_id = payment.call_id`;
  }

  #callConditions(
    { state, origin, jobId, serviceId, payer, text, reason }: Partial<CallFilter>,
    head: string,
    add: Add,
  ): string[] {
    const now = () => this.dialect.now(add(this.#now()));
    const states = {
      held: () => "call.state = 'held'",
      ready: () =>
        `(call.state IN ('ready', 'delayed') OR call.state = 'leased' AND call.visible_at <= ${now()})`,
      leased: () => `call.state = 'leased' AND call.visible_at > ${now()}`,
      dead: () => "call.state = 'dead'",
      done: () => "call.state = 'succeeded'",
      failed: () => END_CONDITIONS.failed,
      dropped: () => END_CONDITIONS.dropped,
    };
    return [
      ...(state === undefined ? [] : [states[state]()]),
      ...(origin === undefined ? [] : [`call.origin = ${add(origin)}`]),
      ...(jobId === undefined ? [] : [`call.job_id = ${add(String(jobId))}`]),
      ...(serviceId === undefined ? [] : [`call.service_id = ${add(String(serviceId))}`]),
      ...(payer === undefined ? [] : [`payment.payer = ${add(payer)}`]),
      ...(reason === undefined
        ? []
        : [
            `call.dead_group = call.origin || ' ' || call.service_id || ' ' || call.job_id || ' ' || ${add(reason)}`,
          ]),
      ...(text === undefined ? [] : [this.dialect.contains(head, add(Buffer.from(text)))]),
    ];
  }

  #part(
    part: {
      readonly source: Source;
      readonly joins: string;
      readonly columns: string;
      conditions(add: Add): readonly string[];
      /** True if all entries of the source match the filter. */
      readonly isExact: boolean;
      readonly scanned: number;
      readonly limit: number;
    },
    { before, from }: IdRange,
  ): PartQueries {
    const dialect = this.dialect;
    const { table, alias, index, keys = [], where, isUnordered = false } = part.source;
    const id = `${alias}.call_id`;
    const source = `${dialect.schema}${table}${index === undefined ? "" : dialect.indexedBy(index)}`;

    /** Conditions and order of the entries of the index in a range. */
    const indexed = (range: IdRange, add: Add) => {
      const columns = { id, keys: keys.map(([column, value]) => ({ column, value: add(value) })) };
      const within = dialect.within(columns, { before: add(range.before), from: add(range.from) });
      const order = dialect.newestFirst(columns);
      return { conditions: where === undefined ? [within] : [where, within], order };
    };

    const floor = parameters(dialect);
    const all = indexed({ before, from }, floor.add);
    const floorSql = `SELECT ${id} AS id FROM ${source} WHERE ${all.conditions.join(" AND ")}
      ORDER BY ${all.order} LIMIT 1 OFFSET ${part.scanned - 1}`;
    return {
      floor: isUnordered || part.isExact ? undefined : { sql: floorSql, values: floor.values },
      rows: (range) => {
        const { values, add } = parameters(dialect);
        const { conditions, order } = indexed(range, add);
        const now =
          alias === "payment" && part.joins === "" ? "" : `, ${dialect.now(add(this.#now()))} AS now`;
        const paid = now === "" ? "" : `, ${PAID_COLUMNS}`;
        const sql = `SELECT ${part.columns}${paid}${now} FROM ${source} ${part.joins}
          WHERE ${[...conditions, ...part.conditions(add)].join(" AND ")} ORDER BY ${order} LIMIT ${add(part.limit)}`;
        return { sql, values };
      },
    };
  }
}

/** Largest index of a job. A JobCall of a webhook may have a larger job ID, which Postgres would refuse to compare. */
const MAX_JOB_INDEX = 2n ** 32n - 1n;

/** Text of the job's index; -1, which no job has, if there is none. */
function jobIndexText(jobId: bigint | undefined): string | undefined {
  return jobId !== undefined && jobId > MAX_JOB_INDEX ? "-1" : jobId?.toString();
}
