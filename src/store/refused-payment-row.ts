import type { ErrorCode } from "../core/errors.ts";
import {
  type ListedRefusedPayment,
  MAX_REFUSED_PAYMENTS,
  REFUSED_AT_ONCE,
  REFUSED_KEPT_MS,
  type RefusedPayment,
} from "./contract/refused-payments.ts";

/** Columns of a row of `refused_payments`. */
export interface RefusedPaymentRow {
  id: number;
  at: number;
  request_id: string;
  service_id: string;
  job_index: number;
  payer: string | null;
  code: string;
  /** JSON of what nothing is searched by. */
  more: string;
}

export const REFUSED_PAYMENT_COLUMNS = [
  "at",
  "request_id",
  "service_id",
  "job_index",
  "payer",
  "code",
  "more",
] as const satisfies readonly (keyof RefusedPaymentRow)[];

type More = Pick<RefusedPayment, "message" | "reason"> &
  Partial<Pick<NonNullable<RefusedPayment["payment"]>, "network" | "amount">>;

export function toRefusedPaymentRow(refused: RefusedPayment): Omit<RefusedPaymentRow, "id"> {
  const { at, requestId, serviceId, jobIndex, code, message, reason, payment } = refused;
  const { payer = null, network, amount } = payment ?? {};
  const more = JSON.stringify({ message, reason, network, amount });
  return { at, request_id: requestId, service_id: String(serviceId), job_index: jobIndex, payer, code, more };
}

export function toRefusedPayment(row: RefusedPaymentRow): ListedRefusedPayment {
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

/** Age and ID that the kept refusals are above. */
export function firstKept(now: number, newestId: number): { readonly at: number; readonly id: number } {
  return { at: now - REFUSED_KEPT_MS, id: newestId - MAX_REFUSED_PAYMENTS };
}

/** SQL that selects the IDs to forget. It looks at the oldest few, however many there are. */
export const selectForgotten = (table: string, at: string, id: string) =>
  `SELECT id FROM (SELECT id, at FROM ${table} ORDER BY id LIMIT ${2 * REFUSED_AT_ONCE}) AS oldest
    WHERE at <= ${at} OR id <= ${id}`;
