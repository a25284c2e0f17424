import { hash } from "node:crypto";
import type { ErrorCode } from "../../core/errors.ts";
import {
  type ListedRefusedPayment,
  MAX_REFUSED_PAYMENTS,
  REFUSED_AT_ONCE,
  REFUSED_KEPT_MS,
  type RefusedPayment,
  type RefusedPaymentCount,
  type RefusedPaymentLog,
} from "../contract/refused-payments.ts";
import { type Lookup, parameters } from "../list-dialect.ts";
import type { StoreModule } from "../module.ts";
import type { OldRows, Table } from "../rows.ts";

interface RefusedPaymentRow {
  readonly id: number;
  readonly at: number;
  readonly request_id: string;
  readonly service_id: string;
  readonly job_index: number;
  readonly payer: string | null;
  readonly code: string;
  /** JSON of {@link More}. */
  readonly more: string;
  /** Digest of job, code and reason. */
  readonly cause: string;
}

/** Fields that no search uses. */
type More = Pick<RefusedPayment, "message" | "reason"> &
  Partial<Pick<NonNullable<RefusedPayment["payment"]>, "network" | "amount">>;

const TABLE: Table<RefusedPaymentRow, "id"> = {
  name: "refused_payments",
  key: ["id"],
  columns: ["id", "at", "request_id", "service_id", "job_index", "payer", "code", "more", "cause"],
};

/** Reads the oldest few rows, however many rows there are. */
const OLD: OldRows = {
  table: TABLE.name,
  where: ({ schema }, before, most) => `id IN (
    SELECT id FROM (SELECT id, at FROM ${schema}refused_payments ORDER BY id LIMIT ${most}) AS oldest
     WHERE at <= ${before} OR id <= (SELECT max(id) FROM ${schema}refused_payments) - ${MAX_REFUSED_PAYMENTS})`,
  limit: 2 * REFUSED_AT_ONCE,
};

/** Refusals of payments. */
export const REFUSED_PAYMENTS = {
  forOperator: ["listRefusedPayments", "countRefusedPayments"],
  steps: {
    saveRefusedPayments: {
      run({ rows }, now, refused) {
        for (const one of refused) rows.add(TABLE, toRow(one));
        rows.forget(OLD, now - REFUSED_KEPT_MS);
      },
    },
  },
  lookups: {
    *listRefusedPayments({ dialect, now }, filter): Lookup<ListedRefusedPayment[]> {
      const { limit, before = Number.MAX_SAFE_INTEGER, payer, code, requestId, serviceId, jobIndex } = filter;
      const { values, add } = parameters(dialect);
      const table = `${dialect.schema}refused_payments`;
      const searched = {
        payer,
        code,
        request_id: requestId,
        service_id: serviceId === undefined ? undefined : String(serviceId),
        job_index: jobIndex,
      };
      const conditions = [
        `id < ${add(before)}`,
        ...areKept(table, dialect.now(add(now()))),
        ...Object.entries(searched).flatMap(([column, value]) =>
          value === undefined ? [] : [`${column} = ${add(value)}`],
        ),
      ];
      const sql = `SELECT ${TABLE.columns.join()} FROM ${table}
        WHERE ${conditions.join(" AND ")} ORDER BY id DESC LIMIT ${add(limit)}`;
      return ((yield { sql, values }) as RefusedPaymentRow[]).map(toRefusedPayment);
    },

    *countRefusedPayments({ dialect, now }): Lookup<RefusedPaymentCount[]> {
      const { values, add } = parameters(dialect);
      const table = `${dialect.schema}refused_payments`;
      const conditions = areKept(table, dialect.now(add(now())));
      // Reads the index alone, and then one row of each cause.
      const sql = `WITH causes AS (
          SELECT cause, CAST(count(*) AS bigint) AS count, max(at) AS newest_at, max(id) AS newest
            FROM ${table}${dialect.indexedBy("refused_payments_by_cause")} WHERE ${conditions.join(" AND ")} GROUP BY cause)
        SELECT service_id, job_index, code, more, count, newest_at FROM causes JOIN ${table} ON id = newest`;
      return ((yield { sql, values }) as CountRow[]).map(toCount).sort(byCount);
    },
  },
} satisfies StoreModule<RefusedPaymentLog>;

function areKept(table: string, now: string): string[] {
  return [
    `id > (SELECT max(id) FROM ${table}) - ${MAX_REFUSED_PAYMENTS}`,
    `at > ${now} - ${REFUSED_KEPT_MS}`,
  ];
}

type CountRow = Pick<RefusedPaymentRow, "service_id" | "job_index" | "code" | "more"> & {
  readonly count: number;
  readonly newest_at: number;
};

/** Reads the reason in JavaScript, because Postgres cannot read JSON text with all characters that a reason can have. */
function toCount({ service_id, job_index, code, more, count, newest_at }: CountRow): RefusedPaymentCount {
  const { reason } = JSON.parse(more) as More;
  return {
    ...{ serviceId: BigInt(service_id), jobIndex: job_index, code: code as ErrorCode },
    ...(reason === undefined ? {} : { reason }),
    ...{ count, newestAt: newest_at },
  };
}

/** Sorts counts, the most frequent first. */
function byCount(a: RefusedPaymentCount, b: RefusedPaymentCount): number {
  const textOf = ({ serviceId, jobIndex, code, reason }: RefusedPaymentCount) =>
    JSON.stringify([String(serviceId), jobIndex, code, reason]);
  return b.count - a.count || b.newestAt - a.newestAt || (textOf(a) < textOf(b) ? -1 : 1);
}

/** Length of a digest: 132 bits. */
const DIGEST_LENGTH = 22;

/** Returns the digest of the fields by which refusals are counted. A reason itself may be too long for an index. */
function causeOf({ serviceId, jobIndex, code, reason }: RefusedPayment): string {
  const text = JSON.stringify([String(serviceId), jobIndex, code, reason]);
  return hash("sha256", text, "base64url").slice(0, DIGEST_LENGTH);
}

function toRow(refused: RefusedPayment): Omit<RefusedPaymentRow, "id"> {
  const { at, requestId, serviceId, jobIndex, code, message, reason, payment } = refused;
  const { payer = null, network, amount } = payment ?? {};
  const more = JSON.stringify({ message, reason, network, amount });
  return {
    at,
    request_id: requestId,
    service_id: String(serviceId),
    job_index: jobIndex,
    payer,
    code,
    more,
    cause: causeOf(refused),
  };
}

function toRefusedPayment(row: RefusedPaymentRow): ListedRefusedPayment {
  const { message, reason, network = "", amount = "" } = JSON.parse(row.more) as More;
  return {
    id: row.id,
    at: row.at,
    requestId: row.request_id,
    serviceId: BigInt(row.service_id),
    jobIndex: row.job_index,
    code: row.code as ErrorCode,
    message,
    ...(reason === undefined ? {} : { reason }),
    ...(row.payer === null ? {} : { payment: { payer: row.payer, network, amount } }),
  };
}
