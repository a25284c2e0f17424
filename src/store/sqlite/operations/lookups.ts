import {
  type DeadLetterRow,
  PAYMENT_OF_CALL,
  type PaidCallRow,
  toCallState,
  toDeadLetter,
} from "../../call-row.ts";
import { type PaymentRow, toPaymentRecord } from "../../payment-row.ts";
import { JUST_DUE_MS } from "../../rules/leases.ts";
import type { Database } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";
import { PaymentFinder } from "./payment-finder.ts";

export function paymentLookups(
  database: Database,
): OperationTable<
  | "findPayment"
  | "findPaymentByFingerprint"
  | "findPaymentByIdentifier"
  | "listUndecided"
  | "listEndingAuthorizations"
> {
  const payments = new PaymentFinder(database);
  const selectOldestInState = database.prepare<PaymentRow>(
    "SELECT * FROM payments WHERE state = ? AND call_id > ? ORDER BY call_id LIMIT ?",
  );
  const selectOldestWatched = database.prepare<PaymentRow>(
    `SELECT payments.* FROM watched_payments JOIN payments USING (call_id)
      WHERE watched_payments.call_id > ? ORDER BY watched_payments.call_id LIMIT ?`,
  );
  const selectEnding = database.prepare<{ call_id: number }>(
    `SELECT call_id FROM payments INDEXED BY payments_authorized
      WHERE state = 'authorized' AND valid_before_secs < ? ORDER BY valid_before_secs LIMIT ?`,
  );
  return {
    findPayment(_now, key) {
      const row = payments.find(key);
      return row && toPaymentRecord(row);
    },
    findPaymentByFingerprint(_now, fingerprint) {
      const row = payments.findByFingerprint(fingerprint);
      return row && toPaymentRecord(row);
    },
    findPaymentByIdentifier(_now, { payer, id }) {
      const row = payments.findByIdentifier({ payer, payment_id: id });
      return row && toPaymentRecord(row);
    },
    listEndingAuthorizations: (_now, beforeSecs, limit) =>
      selectEnding.all([beforeSecs, limit]).map(({ call_id }) => call_id),
    listUndecided(now, { state, limit, after = 0 }) {
      const rows =
        state === "watched"
          ? selectOldestWatched.all([after, limit])
          : selectOldestInState.all([state, after, limit]);
      return rows.map((row) => ({ ...toPaymentRecord(row), ageMs: now - row.created_at }));
    },
  };
}

export function callLookups(
  database: Database,
): OperationTable<"nextDueMs" | "ceilings" | "findCall" | "findResult" | "findDeadLetter"> {
  const selectNextDue = database.prepare<{ due: number | null }>(
    `SELECT min(visible_at) AS due FROM job_calls INDEXED BY job_calls_waiting
      WHERE state IN ('leased', 'delayed') AND (state = 'leased' OR subscriber IS NULL OR visible_at > ?)`,
  );
  const selectPaidCall = database.prepare<PaidCallRow>(
    `SELECT payments.network, payments.asset, payments.payer, nonce, job_calls.state, visible_at, attempts AS attempt,
          progress_percent, progress_text, dead_reason AS reason, enqueued_at, dead_at AS finished_at, ${PAYMENT_OF_CALL}
     FROM payments JOIN job_calls ON job_calls.call_id = payments.call_id
     LEFT JOIN refunds ON refunds.call_id = payments.call_id WHERE payments.call_id = ?1
   UNION ALL
   SELECT payments.network, payments.asset, payments.payer, nonce, results.state, NULL, results.attempt, NULL, NULL, results.reason,
          enqueued_at, finished_at, ${PAYMENT_OF_CALL}
     FROM payments JOIN results ON results.call_id = payments.call_id
     LEFT JOIN refunds ON refunds.call_id = payments.call_id WHERE payments.call_id = ?1
     UNION ALL
     SELECT payments.network, payments.asset, payments.payer, nonce, 'expired', NULL, 0, NULL, NULL, NULL,
            payments.created_at, NULL, ${PAYMENT_OF_CALL}
       FROM payments LEFT JOIN refunds ON refunds.call_id = payments.call_id
      WHERE payments.call_id = ?1 AND payments.state IN ('settled', 'released')
        AND NOT EXISTS (SELECT 1 FROM job_calls WHERE call_id = ?1)
        AND NOT EXISTS (SELECT 1 FROM results WHERE call_id = ?1)`,
  );
  const selectResult = database.prepare<{ body: Uint8Array; content_type: string }>(
    "SELECT body, content_type FROM results WHERE call_id = ? AND body IS NOT NULL",
  );
  const selectDeadLetter = database.prepare<DeadLetterRow & { encoded: Uint8Array }>(
    `SELECT call_id, origin, job_id, service_id, attempts, dead_reason, enqueued_at, dead_at, encoded
       FROM job_calls JOIN job_bodies USING (call_id)
      WHERE call_id = ? AND state = 'dead'`,
  );
  const selectCeilings = database.prepare<{ call_id: number | null; ceiling: string | null }>(
    `SELECT call_id, ceiling FROM json_each(?) AS asked LEFT JOIN job_calls ON call_id = asked.value ORDER BY asked.key`,
  );
  return {
    ceilings: (_now, callIds) =>
      selectCeilings
        .all([JSON.stringify(callIds)])
        .map(({ call_id, ceiling }) => (call_id === null ? undefined : ceiling)),
    nextDueMs(now) {
      const dueAt = selectNextDue.get([now - JUST_DUE_MS])?.due ?? undefined;
      return dueAt && dueAt - now;
    },
    findCall(now, callId) {
      const row = selectPaidCall.get([callId]);
      return row && toCallState(callId, row, now);
    },
    findResult(_now, callId) {
      const row = selectResult.get([callId]);
      return row && { body: row.body, contentType: row.content_type };
    },
    findDeadLetter(_now, callId) {
      const row = selectDeadLetter.get([callId]);
      return row && { ...toDeadLetter(row), encoded: row.encoded };
    },
  };
}
