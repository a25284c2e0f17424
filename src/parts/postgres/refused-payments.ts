import type { ListedRefusedPayment, RefusedPaymentFilter } from "../../store/contract/refused-payments.ts";
import {
  firstKept,
  REFUSED_PAYMENT_COLUMNS,
  type RefusedPaymentRow,
  toRefusedPayment,
} from "../../store/refused-payment-row.ts";
import { NEWEST_REFUSED_PAYMENT } from "./shared-statements.ts";
import { NOW, type Sql, type Statement, storable } from "./sql.ts";

const COLUMN_LIST = REFUSED_PAYMENT_COLUMNS.join(", ");

/** @param now replaces the database's clock in tests */
export async function listRefusedPayments(
  run: Sql["run"],
  now: number | null,
  filter: RefusedPaymentFilter,
): Promise<ListedRefusedPayment[]> {
  const { limit, before = Number.MAX_SAFE_INTEGER, payer, code, requestId, serviceId, jobIndex } = filter;
  const [newest] = await run(NEWEST_REFUSED_PAYMENT);
  const { id, at } = firstKept(0, newest?.id ?? 0);
  // Without a name it is planned for its values.
  const asked: Statement<RefusedPaymentRow> = {
    name: "",
    text: `SELECT id, ${COLUMN_LIST} FROM jobgate.refused_payments
      WHERE id < $2 AND id > $4 AND at > ${NOW} + $5::bigint
        AND ($6::text IS NULL OR payer = $6) AND ($7::text IS NULL OR code = $7)
        AND ($8::text IS NULL OR request_id = $8) AND ($9::text IS NULL OR service_id = $9)
        AND ($10::integer IS NULL OR job_index = $10)
      ORDER BY id DESC LIMIT $3`,
  };
  const service = serviceId === undefined ? null : String(serviceId);
  const who = [payer, code, requestId].map((text) => storable(text));
  const rows = await run(asked, [now, before, limit, id, at, ...who, service, jobIndex ?? null]);
  return rows.map(toRefusedPayment);
}
