import {
  firstKept,
  REFUSED_PAYMENT_COLUMNS,
  selectForgotten,
  toRefusedPaymentRow,
} from "../../../store/refused-payment-row.ts";
import { NEWEST_REFUSED_PAYMENT } from "../shared-statements.ts";
import { statement, storable } from "../sql.ts";
import type { BatchContext, BatchPart, Entry } from "./batch.ts";

const COLUMN_LIST = REFUSED_PAYMENT_COLUMNS.join(", ");

const SAVE_REFUSED_PAYMENTS = statement(
  "save_refused_payments",
  `INSERT INTO jobgate.refused_payments (${COLUMN_LIST})
   SELECT ${COLUMN_LIST} FROM json_to_recordset($1::json) AS new
     (at bigint, request_id text, service_id text, job_index integer, payer text, code text, more text)`,
);
const FORGET_REFUSED_PAYMENTS = statement(
  "forget_refused_payments",
  `DELETE FROM jobgate.refused_payments WHERE id = ANY (ARRAY (
     SELECT id FROM jobgate.refused_payments
      WHERE id IN (${selectForgotten("jobgate.refused_payments", "$1::bigint", "$2::bigint")}) FOR UPDATE SKIP LOCKED))`,
);

export function refusedPaymentsPart(entries: readonly Entry<"saveRefusedPayments">[]): BatchPart {
  return {
    callIds: 0,
    load: () => Promise.resolve(),
    async write({ sql, now }: BatchContext) {
      if (entries.length === 0) return;
      const rows = entries.flatMap(({ input: [refused] }) => refused.map(toStorableRow));
      const [, [newest]] = await Promise.all([
        rows.length === 0 ? [] : sql.run(SAVE_REFUSED_PAYMENTS, [JSON.stringify(rows)]),
        sql.run(NEWEST_REFUSED_PAYMENT),
      ]);
      const { at, id } = firstKept(now, newest?.id ?? 0);
      await sql.run(FORGET_REFUSED_PAYMENTS, [at, id]);
      for (const { decide } of entries) decide(undefined);
    },
  };
}

function toStorableRow(refused: Parameters<typeof toRefusedPaymentRow>[0]) {
  const row = toRefusedPaymentRow(refused);
  return { ...row, request_id: storable(row.request_id) };
}
