import type { ErrorCode } from "../../core/errors.ts";
import {
  type ListedRefusedPayment,
  MAX_REFUSED_PAYMENTS,
  REFUSED_AT_ONCE,
  REFUSED_KEPT_MS,
  type RefusedPayment,
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
}

/** Fields that nothing is searched by. */
type More = Pick<RefusedPayment, "message" | "reason"> &
  Partial<Pick<NonNullable<RefusedPayment["payment"]>, "network" | "amount">>;

const TABLE: Table<RefusedPaymentRow, "id"> = {
  name: "refused_payments",
  key: ["id"],
  columns: ["id", "at", "request_id", "service_id", "job_index", "payer", "code", "more"],
};

/** Looks at the oldest few, however many there are. */
const OLD: OldRows = {
  table: TABLE.name,
  where: ({ schema }, before) => `id IN (
    SELECT id FROM (SELECT id, at FROM ${schema}refused_payments ORDER BY id LIMIT ${2 * REFUSED_AT_ONCE}) AS oldest
     WHERE at <= ${before} OR id <= (SELECT max(id) FROM ${schema}refused_payments) - ${MAX_REFUSED_PAYMENTS})`,
  limit: 2 * REFUSED_AT_ONCE,
};

/** Refusals of payments. */
export const REFUSED_PAYMENTS = {
  forOperator: ["listRefusedPayments"],
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
        `id > (SELECT max(id) FROM ${table}) - ${MAX_REFUSED_PAYMENTS}`,
        `at > ${dialect.now(add(now()))} - ${REFUSED_KEPT_MS}`,
        ...Object.entries(searched).flatMap(([column, value]) =>
          value === undefined ? [] : [`${column} = ${add(value)}`],
        ),
      ];
      const sql = `SELECT ${TABLE.columns.join()} FROM ${table}
        WHERE ${conditions.join(" AND ")} ORDER BY id DESC LIMIT ${add(limit)}`;
      return ((yield { sql, values }) as RefusedPaymentRow[]).map(toRefusedPayment);
    },
  },
} satisfies StoreModule<RefusedPaymentLog>;

function toRow(refused: RefusedPayment): Omit<RefusedPaymentRow, "id"> {
  const { at, requestId, serviceId, jobIndex, code, message, reason, payment } = refused;
  const { payer = null, network, amount } = payment ?? {};
  const more = JSON.stringify({ message, reason, network, amount });
  return { at, request_id: requestId, service_id: String(serviceId), job_index: jobIndex, payer, code, more };
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
