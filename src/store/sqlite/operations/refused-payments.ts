import {
  firstKept,
  REFUSED_PAYMENT_COLUMNS,
  type RefusedPaymentRow,
  selectForgotten,
  toRefusedPayment,
  toRefusedPaymentRow,
} from "../../refused-payment-row.ts";
import type { Database } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";

const COLUMN_LIST = REFUSED_PAYMENT_COLUMNS.join(", ");
const NEWEST = "SELECT coalesce(max(id), 0) AS id FROM refused_payments";

export function refusedPaymentOperations(database: Database): OperationTable<"saveRefusedPayments"> {
  const insert = database.prepare(
    `INSERT INTO refused_payments (${COLUMN_LIST}) VALUES (${REFUSED_PAYMENT_COLUMNS.map(() => "?").join(", ")})`,
  );
  const selectNewest = database.prepare<{ id: number }>(NEWEST);
  const forget = database.prepare(
    `DELETE FROM refused_payments WHERE id IN (${selectForgotten("refused_payments", "?1", "?2")})`,
  );
  return {
    saveRefusedPayments(now, refused) {
      for (const row of refused.map(toRefusedPaymentRow))
        insert.run(REFUSED_PAYMENT_COLUMNS.map((column) => row[column]));
      const { at, id } = firstKept(now, selectNewest.get([])?.id ?? 0);
      forget.run([at, id]);
    },
  };
}

export function refusedPaymentLookups(database: Database): OperationTable<"listRefusedPayments"> {
  const selectNewest = database.prepare<{ id: number }>(NEWEST);
  const select = database.prepare<RefusedPaymentRow>(
    `SELECT id, ${COLUMN_LIST} FROM refused_payments
      WHERE id < ?1 AND id > ?3 AND at > ?4
        AND (?5 IS NULL OR payer = ?5) AND (?6 IS NULL OR code = ?6) AND (?7 IS NULL OR request_id = ?7)
        AND (?8 IS NULL OR service_id = ?8) AND (?9 IS NULL OR job_index = ?9)
      ORDER BY id DESC LIMIT ?2`,
  );
  return {
    listRefusedPayments(now, filter) {
      const { limit, before = Number.MAX_SAFE_INTEGER, payer, code, requestId, serviceId, jobIndex } = filter;
      const { at, id } = firstKept(now, selectNewest.get([])?.id ?? 0);
      const service = serviceId === undefined ? null : String(serviceId);
      const who = [payer ?? null, code ?? null, requestId ?? null];
      return select.all([before, limit, id, at, ...who, service, jobIndex ?? null]).map(toRefusedPayment);
    },
  };
}
