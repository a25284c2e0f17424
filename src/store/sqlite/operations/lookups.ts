import { type DeadLetterRow, type PaidCallRow, toCallState, toDeadLetter } from "../../call-row.ts";
import { type PaymentRow, toPaymentRecord } from "../../payment-row.ts";
import { JUST_DUE_MS } from "../../rules/leases.ts";
import type { Database } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";
import { CallerNonces, PaymentFinder } from "./payments.ts";

const MAX_CALL_ID = Number.MAX_SAFE_INTEGER;

export function paymentLookups(
  database: Database,
): OperationTable<
  "findPayment" | "findPaymentByFingerprint" | "isCallerNonceUsed" | "listPayments" | "listUndecided"
> {
  const payments = new PaymentFinder(database);
  const callerNonces = new CallerNonces(database);
  const selectNewest = database.prepare<PaymentRow>(
    "SELECT * FROM payments WHERE call_id < ? ORDER BY call_id DESC LIMIT ?",
  );
  const selectNewestInState = database.prepare<PaymentRow>(
    "SELECT * FROM payments WHERE state = ? AND call_id < ? ORDER BY call_id DESC LIMIT ?",
  );
  const selectOldestInState = database.prepare<PaymentRow>(
    "SELECT * FROM payments WHERE state = ? AND call_id > ? ORDER BY call_id LIMIT ?",
  );
  const selectOldestWatched = database.prepare<PaymentRow>(
    `SELECT payments.* FROM watched_payments JOIN payments USING (call_id)
      WHERE watched_payments.call_id > ? ORDER BY watched_payments.call_id LIMIT ?`,
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
    isCallerNonceUsed: (now, nonce) => callerNonces.isUsed(nonce, now),
    listPayments(_now, { state, limit, before = MAX_CALL_ID }) {
      const rows =
        state === undefined
          ? selectNewest.all([before, limit])
          : selectNewestInState.all([state, before, limit]);
      return rows.map(toPaymentRecord);
    },
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
): OperationTable<"nextDueMs" | "findCall" | "findResult" | "listDeadLetters" | "findDeadLetter"> {
  const selectNextDue = database.prepare<{ due: number | null }>(
    `SELECT min(visible_at) AS due FROM job_calls INDEXED BY job_calls_waiting
      WHERE state IN ('leased', 'delayed') AND (state = 'leased' OR subscriber IS NULL OR visible_at > ?)`,
  );
  const selectPaidCall = database.prepare<PaidCallRow>(
    `SELECT network, asset, payer, nonce, job_calls.state, visible_at, attempts AS attempt, progress_percent, progress_text,
            enqueued_at, dead_at AS finished_at
       FROM payments JOIN job_calls USING (call_id) WHERE call_id = ?1
     UNION ALL
     SELECT network, asset, payer, nonce, results.state, NULL, attempt, NULL, NULL, enqueued_at, finished_at
       FROM payments JOIN results USING (call_id) WHERE call_id = ?1`,
  );
  const selectResult = database.prepare<{ body: Uint8Array; content_type: string }>(
    "SELECT body, content_type FROM results WHERE call_id = ? AND body IS NOT NULL",
  );
  const deadLetterColumns =
    "call_id, origin, job_id, service_id, attempts, dead_reason, enqueued_at, dead_at";
  const selectDeadLetters = database.prepare<DeadLetterRow>(
    `SELECT ${deadLetterColumns} FROM job_calls INDEXED BY job_calls_dead
      WHERE state = 'dead' AND call_id < ? ORDER BY call_id DESC LIMIT ?`,
  );
  const selectDeadLetter = database.prepare<DeadLetterRow & { encoded: Uint8Array }>(
    `SELECT ${deadLetterColumns}, encoded FROM job_calls JOIN job_bodies USING (call_id)
      WHERE call_id = ? AND state = 'dead'`,
  );
  return {
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
    listDeadLetters: (_now, { limit, before = MAX_CALL_ID }) =>
      selectDeadLetters.all([before, limit]).map(toDeadLetter),
    findDeadLetter(_now, callId) {
      const row = selectDeadLetter.get([callId]);
      return row && { ...toDeadLetter(row), encoded: row.encoded };
    },
  };
}
