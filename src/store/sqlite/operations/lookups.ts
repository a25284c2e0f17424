import type { CallerNonce, PaymentKey, PaymentRecord, PaymentState } from "../../../core/payment.ts";
import { type DeadLetterRow, type PaidCallRow, toCallState, toDeadLetter } from "../../call-row.ts";
import type { CallState } from "../../contract/call-lookup.ts";
import type { DeadLetter } from "../../contract/dead-letter-box.ts";
import type { UndecidedPayment } from "../../contract/payment-journal.ts";
import type { JobResult } from "../../contract/work-queue.ts";
import { type PaymentRow, toPaymentRecord } from "../../payment-row.ts";
import type { Database } from "../driver.ts";
import { prepareCallerNonces } from "./caller-nonces.ts";
import { prepareFindPayment, prepareFindPaymentByFingerprint } from "./payments.ts";

const MAX_CALL_ID = Number.MAX_SAFE_INTEGER;

/** What only reads: for a connection of its own, so that no lookup holds up a write. */
export function lookupOperations(database: Database) {
  const findPayment = prepareFindPayment(database);
  const findPaymentByFingerprint = prepareFindPaymentByFingerprint(database);
  const callerNonces = prepareCallerNonces(database);
  const selectPayments = database.prepare<PaymentRow>(
    "SELECT * FROM payments WHERE call_id < ? ORDER BY call_id DESC LIMIT ?",
  );
  const selectPaymentsInState = database.prepare<PaymentRow>(
    "SELECT * FROM payments WHERE state = ? AND call_id < ? ORDER BY call_id DESC LIMIT ?",
  );
  const deadLetterColumns =
    "call_id, origin, job_id, service_id, attempts, dead_reason, enqueued_at, dead_at";
  const selectOldestInState = database.prepare<PaymentRow>(
    "SELECT * FROM payments WHERE state = ? AND call_id > ? ORDER BY call_id LIMIT ?",
  );
  const selectDeadLetters = database.prepare<DeadLetterRow>(
    `SELECT ${deadLetterColumns} FROM job_calls INDEXED BY job_calls_dead
      WHERE state = 'dead' AND call_id < ? ORDER BY call_id DESC LIMIT ?`,
  );
  const selectDeadLetter = database.prepare<DeadLetterRow & { encoded: Uint8Array }>(
    `SELECT ${deadLetterColumns}, encoded FROM job_calls JOIN job_bodies USING (call_id)
      WHERE call_id = ? AND state = 'dead'`,
  );
  const selectPaidCall = database.prepare<PaidCallRow>(
    `SELECT receipt, job_calls.state, visible_at, attempts AS attempt, progress_percent, progress_text,
            enqueued_at, dead_at AS finished_at
       FROM payments JOIN job_calls USING (call_id) WHERE call_id = ?1
     UNION ALL
     SELECT receipt, results.state, NULL, attempt, NULL, NULL, enqueued_at, finished_at
       FROM payments JOIN results USING (call_id) WHERE call_id = ?1`,
  );
  const selectResult = database.prepare<{ body: Uint8Array; content_type: string }>(
    "SELECT body, content_type FROM results WHERE call_id = ? AND body IS NOT NULL",
  );

  return {
    findPayment: (input: { key: PaymentKey }): PaymentRecord | undefined => findPayment(input.key),

    findPaymentByFingerprint: (input: { fingerprint: string }): PaymentRecord | undefined =>
      findPaymentByFingerprint(input.fingerprint),

    isCallerNonceUsed: (input: { nonce: CallerNonce }, now: number): boolean =>
      callerNonces.isUsed(input.nonce, now),

    listPayments(input: { state?: PaymentState; limit: number; before?: number }): PaymentRecord[] {
      const { state, limit, before = MAX_CALL_ID } = input;
      const rows =
        state === undefined
          ? selectPayments.all([before, limit])
          : selectPaymentsInState.all([state, before, limit]);
      return rows.map(toPaymentRecord);
    },

    listUndecided(
      input: { state: PaymentState; limit: number; after?: number },
      now: number,
    ): UndecidedPayment[] {
      const { state, limit, after = 0 } = input;
      const rows = selectOldestInState.all([state, after, limit]);
      return rows.map((row) => ({ ...toPaymentRecord(row), ageMs: now - row.created_at }));
    },

    listDeadLetters(input: { limit: number; before?: number }): DeadLetter[] {
      return selectDeadLetters.all([input.before ?? MAX_CALL_ID, input.limit]).map(toDeadLetter);
    },

    findDeadLetter(input: { callId: number }): (DeadLetter & { encoded: Uint8Array }) | undefined {
      const row = selectDeadLetter.get([input.callId]);
      return row === undefined ? undefined : { ...toDeadLetter(row), encoded: row.encoded };
    },

    findCall(input: { callId: number }, now: number): CallState | undefined {
      const row = selectPaidCall.get([input.callId]);
      return row === undefined ? undefined : toCallState(input.callId, row, now);
    },

    findResult(input: { callId: number }): JobResult | undefined {
      const row = selectResult.get([input.callId]);
      return row === undefined ? undefined : { body: row.body, contentType: row.content_type };
    },
  };
}
