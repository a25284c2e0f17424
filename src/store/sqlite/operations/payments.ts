import type { PaymentIntent, PaymentKey, PaymentRecord } from "../../../core/payment.ts";
import type { Capacity } from "../../capacity.ts";
import type { BeginPaymentOutcome, SettlePaymentOutcome } from "../../contract/payment-journal.ts";
import type { NewCall } from "../../new-call.ts";
import { PAYMENT_COLUMNS, type PaymentRow, toPaymentRecord, toPaymentRow } from "../../payment-row.ts";
import type { Database } from "../driver.ts";
import { prepareCallerNonces } from "./caller-nonces.ts";
import type { InsertCall } from "./new-calls.ts";

type FailOutcome = { kind: "failed" } | { kind: "not_open" };

/** The {@link PaymentJournal} operations that write. */
export function paymentOperations(database: Database, capacity: Capacity, insertCall: InsertCall) {
  const findPayment = prepareFindPayment(database);
  const findByFingerprint = prepareFindPaymentByFingerprint(database);
  const nonces = prepareCallerNonces(database);
  const insertPayment = database.prepare(
    `INSERT INTO payments (${PAYMENT_COLUMNS.join(", ")}) VALUES (${PAYMENT_COLUMNS.map(() => "?").join(", ")})`,
  );
  const decidePayment = database.prepare(
    "UPDATE payments SET state = ?, settlement = ?, reason = ?, updated_at = ? WHERE call_id = ?",
  );
  const leaveUnresolved = database.prepare(
    "UPDATE payments SET state = 'unresolved', reason = ?, updated_at = ? WHERE call_id = ?",
  );
  // The client waits for its job from here on, so this is when it was enqueued.
  const releaseHeldCall = database.prepare(
    "UPDATE job_calls SET state = 'ready', enqueued_at = ? WHERE call_id = ? AND state = 'held'",
  );
  const deleteHeldCall = database.prepare("DELETE FROM job_calls WHERE call_id = ? AND state = 'held'");
  const selectReceipt = database.prepare("SELECT 1 FROM payments WHERE receipt = ? AND state <> 'failed'");
  const deleteBody = database.prepare("DELETE FROM job_bodies WHERE call_id = ?");

  function findOpen(key: PaymentKey): PaymentRecord | undefined {
    const record = findPayment(key);
    return record?.state === "intent" || record?.state === "unresolved" ? record : undefined;
  }

  function freeReceipt({ receipt, spareReceipt }: PaymentIntent): string | undefined {
    return selectReceipt.get([receipt]) === undefined ? receipt : spareReceipt;
  }

  return {
    beginPayment(input: { intent: PaymentIntent; call: NewCall }, now: number): BeginPaymentOutcome {
      const { intent, call } = input;
      const record = findPayment(intent.key) ?? findByFingerprint(intent.fingerprint);
      if (record !== undefined) return { kind: "payment_known", record };
      const { callerNonce } = intent;
      if (callerNonce !== undefined) {
        // One that expired on the way here may have been used, and forgotten since.
        const mayBeForgotten = callerNonce.expiresAt * 1000 <= now;
        if (mayBeForgotten || nonces.isUsed(callerNonce, now)) return { kind: "caller_nonce_used" };
      }
      const receipt = freeReceipt(intent);
      if (receipt === undefined) return { kind: "receipt_used" };
      if (!capacity.hasRoom()) return { kind: "queue_full" };
      const callId = insertCall(call, "held", now);
      const row = toPaymentRow({ ...intent, receipt }, callId, now);
      insertPayment.run(PAYMENT_COLUMNS.map((column) => row[column]));
      if (callerNonce !== undefined) nonces.use(callerNonce, callId, now);
      return { kind: "begun", callId, receipt };
    },

    settlePayment(input: { key: PaymentKey; settlement: string }, now: number): SettlePaymentOutcome {
      const record = findPayment(input.key);
      if (record === undefined || record.state === "failed") return { kind: "not_open" };
      const { callId } = record;
      const changed = record.state !== "settled";
      if (changed) {
        decidePayment.run(["settled", input.settlement, null, now, callId]);
        releaseHeldCall.run([now, callId]);
      }
      return { kind: "settled", callId, changed };
    },

    failPayment(input: { key: PaymentKey; settlement: string; reason: string }, now: number): FailOutcome {
      const record = findOpen(input.key);
      if (record === undefined) return { kind: "not_open" };
      decidePayment.run(["failed", input.settlement, input.reason, now, record.callId]);
      deleteHeldCall.run([record.callId]);
      deleteBody.run([record.callId]);
      capacity.adjust(-1);
      if (record.callerNonce !== undefined) nonces.free(record.callerNonce, record.callId);
      return { kind: "failed" };
    },

    leavePaymentUnresolved(input: { key: PaymentKey; reason: string }, now: number): boolean {
      const record = findPayment(input.key);
      if (record?.state !== "intent") return false;
      leaveUnresolved.run([input.reason, now, record.callId]);
      return true;
    },
  };
}

export function prepareFindPayment(database: Database): (key: PaymentKey) => PaymentRecord | undefined {
  const select = database.prepare<PaymentRow>(
    "SELECT * FROM payments WHERE network = ? AND asset = ? AND payer = ? AND nonce = ?",
  );
  return ({ network, asset, payer, nonce }) => {
    const row = select.get([network, asset, payer, nonce]);
    return row === undefined ? undefined : toPaymentRecord(row);
  };
}

export function prepareFindPaymentByFingerprint(
  database: Database,
): (fingerprint: string) => PaymentRecord | undefined {
  const select = database.prepare<PaymentRow>("SELECT * FROM payments WHERE fingerprint = ?");
  return (fingerprint) => {
    const row = select.get([fingerprint]);
    return row === undefined ? undefined : toPaymentRecord(row);
  };
}
