import { type DeadLetterRow, PAYMENT_OF_CALL, type PaidCallRow } from "../../store/call-row.ts";
import type { PaymentRow } from "../../store/payment-row.ts";
import { JUST_DUE_MS, type LeaseColumns } from "../../store/rules/leases.ts";
import { PAYMENT_COLUMN_LIST } from "./shared-statements.ts";
import { NOW, statement } from "./sql.ts";

/* Statements of the operations that only read. */

export const FIND_PAYMENT = statement<PaymentRow>(
  "find_payment",
  `SELECT ${PAYMENT_COLUMN_LIST} FROM jobgate.payments
     JOIN unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS asked (network, asset, payer, nonce)
    USING (network, asset, payer, nonce)`,
);
export const LIST_UNDECIDED = statement<PaymentRow & { age_ms: number }>(
  "list_undecided",
  `SELECT ${PAYMENT_COLUMN_LIST}, ${NOW} - created_at AS age_ms FROM jobgate.payments
    WHERE state = $2 AND call_id > $3 ORDER BY call_id LIMIT $4`,
);
export const LIST_ENDING_AUTHORIZATIONS = statement<{ call_id: number }>(
  "list_ending_authorizations",
  `SELECT call_id FROM jobgate.payments
    WHERE state = 'authorized' AND valid_before_secs < $1 ORDER BY valid_before_secs LIMIT $2`,
);
export const FIND_CEILINGS = statement<{ is_known: boolean; ceiling: string | null }>(
  "find_ceilings",
  `SELECT job_calls.call_id IS NOT NULL AS is_known, ceiling FROM unnest($1::bigint[]) WITH ORDINALITY AS asked (call_id, place)
     LEFT JOIN jobgate.job_calls ON job_calls.call_id = asked.call_id ORDER BY place`,
);
export const LIST_WATCHED = statement<PaymentRow & { age_ms: number }>(
  "list_watched",
  `SELECT ${PAYMENT_COLUMN_LIST}, ${NOW} - created_at AS age_ms
     FROM jobgate.watched_payments JOIN jobgate.payments USING (call_id)
    WHERE watched_payments.call_id > $2 ORDER BY watched_payments.call_id LIMIT $3`,
);
export const FIND_DEAD_LETTER = statement<DeadLetterRow & { encoded: Buffer }>(
  "find_dead_letter",
  `SELECT call_id, origin, job_id, service_id, attempts, dead_reason, enqueued_at, dead_at, encoded
     FROM jobgate.job_calls JOIN jobgate.job_bodies USING (call_id)
    WHERE call_id = $1 AND state = 'dead'`,
);
export const FIND_CALL = statement<PaidCallRow & { now: number }>(
  "find_call",
  `SELECT payments.network, payments.asset, payments.payer, nonce, job_calls.state, visible_at, attempts AS attempt,
          progress_percent, progress_text, dead_reason AS reason, enqueued_at, dead_at AS finished_at, ${PAYMENT_OF_CALL}, ${NOW} AS now
     FROM jobgate.payments JOIN jobgate.job_calls ON job_calls.call_id = payments.call_id
     LEFT JOIN jobgate.refunds ON refunds.call_id = payments.call_id WHERE payments.call_id = $2
   UNION ALL
   SELECT payments.network, payments.asset, payments.payer, nonce, results.state, NULL, results.attempt, NULL, NULL, results.reason,
          enqueued_at, finished_at, ${PAYMENT_OF_CALL}, ${NOW}
     FROM jobgate.payments JOIN jobgate.results ON results.call_id = payments.call_id
     LEFT JOIN jobgate.refunds ON refunds.call_id = payments.call_id WHERE payments.call_id = $2
   UNION ALL
   SELECT payments.network, payments.asset, payments.payer, nonce, 'expired', NULL, 0, NULL, NULL, NULL,
          payments.created_at, NULL, ${PAYMENT_OF_CALL}, ${NOW}
     FROM jobgate.payments LEFT JOIN jobgate.refunds ON refunds.call_id = payments.call_id
    WHERE payments.call_id = $2 AND payments.state IN ('settled', 'released')
      AND NOT EXISTS (SELECT FROM jobgate.job_calls WHERE call_id = $2)
      AND NOT EXISTS (SELECT FROM jobgate.results WHERE call_id = $2)`,
);
export const FIND_RESULT = statement<{ body: Buffer; content_type: string }>(
  "find_result",
  "SELECT body, content_type FROM jobgate.results WHERE call_id = $1 AND body IS NOT NULL",
);
export const NEXT_DUE = statement<{ due_in: number | null }>(
  "next_due",
  `SELECT min(visible_at) - ${NOW} AS due_in FROM jobgate.job_calls
    WHERE state IN ('leased', 'delayed') AND (state = 'leased' OR subscriber IS NULL OR visible_at > ${NOW} - ${JUST_DUE_MS})`,
);
export const FIND_LEASES = statement<LeaseRow>(
  "find_leases",
  `SELECT call_id, state, lease_token, visible_at, ${NOW} AS now FROM jobgate.job_calls
    WHERE call_id = ANY ($2::bigint[])`,
);
export interface LeaseRow extends LeaseColumns {
  readonly call_id: number;
  readonly now: number;
}
