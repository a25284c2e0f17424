import { MAX_WATCHED, WATCHED_MS } from "../../contract/payment-journal.ts";
import { paymentSteps } from "../../machine/payment-steps.ts";
import { isNonceUsed, useNonce } from "../../modules/caller-nonces.ts";
import type { Capacity } from "../../new-call.ts";
import { PAYMENT_COLUMNS, toPaymentRecord, toPaymentRow } from "../../payment-row.ts";
import { beginDecision } from "../../rules/payments.ts";
import { type Database, prepareInsert } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";
import type { SqliteEffects } from "./effects.ts";
import type { NewCalls } from "./new-calls.ts";
import { PaymentFinder } from "./payment-finder.ts";
import type { Undecided } from "./undecided.ts";

const ENDED_AT_ONCE = 500;

const beyondMost = (isByUse: 0 | 1) => `SELECT call_id FROM watched_payments WHERE is_by_use = ${isByUse}
           ORDER BY since DESC LIMIT ${ENDED_AT_ONCE} OFFSET ${MAX_WATCHED}`;

export function paymentOperations(
  database: Database,
  {
    capacity,
    newCalls,
    undecided,
    effects,
  }: {
    readonly capacity: Capacity;
    readonly newCalls: NewCalls;
    readonly undecided: Undecided;
    readonly effects: SqliteEffects;
  },
): OperationTable<
  | "beginPayment"
  | "settlePayment"
  | "failPayment"
  | "leavePaymentUnresolved"
  | "closePayment"
  | "contradictPayment"
  | "endWatches"
> {
  const payments = new PaymentFinder(database);
  const selectRedeemed = database.prepare(
    "SELECT 1 FROM payments WHERE receipt = ? AND redeems_quote = 1 AND state <> 'failed'",
  );
  const insertPayment = prepareInsert(database, "payments", PAYMENT_COLUMNS);
  const selectOldWatches = database.prepare<{ call_id: number; keeps_body: 0 | 1 }>(
    `SELECT call_id, state = 'failed' AND ceiling IS NULL AS keeps_body FROM (
       SELECT call_id FROM watched_payments WHERE since <= ?
       UNION SELECT call_id FROM (${beyondMost(0)}) UNION SELECT call_id FROM (${beyondMost(1)}))
       JOIN payments USING (call_id) LIMIT ${ENDED_AT_ONCE}`,
  );
  const endWatch = database.prepare("DELETE FROM watched_payments WHERE call_id = ?");
  const dropBody = database.prepare("DELETE FROM job_bodies WHERE call_id = ?");

  return {
    ...paymentSteps((key) => payments.find(key), effects),

    beginPayment(now, intent, call, limits) {
      const { callerNonce } = intent;
      const known =
        payments.find(intent.key) ??
        payments.findByFingerprint(intent.fingerprint) ??
        payments.findByIdentifier({ payer: intent.key.payer, payment_id: intent.paymentId ?? null });
      const decision = beginDecision({
        intent,
        known: known && toPaymentRecord(known),
        isNonceUsed: callerNonce !== undefined && isNonceUsed(effects.rows, callerNonce, now),
        isQuotePaid: intent.redeemsQuote === true && selectRedeemed.get([intent.receipt]) !== undefined,
        hasRoom: capacity.hasRoom(),
        undecided: {
          total: undecided.total,
          ofPayer:
            limits === undefined ? 0 : undecided.ofPayer(intent.key.payer, now, limits.maxOpenPerPayer),
        },
        openUnits:
          limits?.funds === undefined ? 0n : undecided.openUnits(intent.key, now - (limits.fundsAgeMs ?? 0)),
        limits,
        now,
      });
      if (decision.kind !== "begin") return decision;
      capacity.adjust(1);
      const callId = newCalls.add(call, intent.charge === "before" ? "held" : "ready", now, intent);
      insertPayment(toPaymentRow(intent, callId, now));
      if (callerNonce !== undefined) useNonce(effects.rows, callerNonce, { callId, now });
      return { kind: "begun", callId };
    },

    endWatches(now) {
      const old = selectOldWatches.all([now - WATCHED_MS]);
      for (const { call_id, keeps_body } of old) {
        endWatch.run([call_id]);
        if (keeps_body === 1) dropBody.run([call_id]);
      }
      return old.length === ENDED_AT_ONCE;
    },
  };
}
