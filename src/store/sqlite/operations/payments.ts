import { beginsReady } from "../../../core/payment.ts";
import { MAX_WATCHED, WATCHED_MS } from "../../contract/payment-journal.ts";
import { beginStep, type PaymentStep, paymentSteps } from "../../machine/payment-steps.ts";
import { gateOf } from "../../modules/modules.ts";
import { isNonceUsed, useNonce } from "../../modules/one-time-nonces.ts";
import type { Capacity } from "../../new-call.ts";
import { PAYMENT_COLUMNS, toPaymentRow } from "../../payment-row.ts";
import { type Database, prepareInsert } from "../driver.ts";
import type { BulkTable, OperationTable } from "../transaction.ts";
import type { SqliteEffects } from "./effects.ts";
import type { NewCalls } from "./new-calls.ts";
import type { PaymentFinder, Undecided } from "./payment-rows.ts";

const ENDED_AT_ONCE = 500;

const beyondMost = (
  isDeferred: 0 | 1,
) => `SELECT call_id FROM watched_payments WHERE is_deferred = ${isDeferred} AND NOT is_early
           ORDER BY since DESC LIMIT ${ENDED_AT_ONCE} OFFSET ${MAX_WATCHED}`;

export function paymentOperations(
  database: Database,
  {
    payments,
    capacity,
    newCalls,
    undecided,
    effects,
  }: {
    readonly payments: PaymentFinder;
    readonly capacity: Capacity;
    readonly newCalls: NewCalls;
    readonly undecided: Undecided;
    readonly effects: SqliteEffects;
  },
): OperationTable<"beginPayment" | PaymentStep | "endWatches"> {
  const insertPayment = prepareInsert(database, "payments", PAYMENT_COLUMNS);
  const selectOldWatches = database.prepare<{ call_id: number; keeps_body: 0 | 1 }>(
    `SELECT call_id, state = 'failed' AND ceiling IS NULL AS keeps_body FROM (
       SELECT call_id FROM watched_payments WHERE since <= ? AND NOT is_early
       UNION SELECT call_id FROM (${beyondMost(0)}) UNION SELECT call_id FROM (${beyondMost(1)}))
       JOIN payments USING (call_id) LIMIT ${ENDED_AT_ONCE}`,
  );
  const endWatch = database.prepare("DELETE FROM watched_payments WHERE call_id = ?");
  const dropBody = database.prepare("DELETE FROM job_bodies WHERE call_id = ?");

  return {
    ...paymentSteps((key) => payments.find(key), effects),

    beginPayment: beginStep(
      {
        findRepeated: (intent) => payments.findRepeated(intent),
        isNonceUsed: (nonce, now) => isNonceUsed(effects.rows, nonce, now),
        undecided: (payer, now, { maxOpenPerPayer }) => ({
          total: undecided.total,
          ofPayer: undecided.ofPayer(payer, now, maxOpenPerPayer),
        }),
        openUnits: (key, since) => undecided.openUnits(key, since),
        add(intent, call, now) {
          const callId = newCalls.add(call, beginsReady(intent) ? "ready" : "held", now, intent);
          const row = toPaymentRow(intent, callId, now);
          insertPayment(row);
          return row;
        },
        useNonce: (nonce, callId, now) => useNonce(effects.rows, nonce, { callId, now }),
      },
      capacity,
      effects,
    ),

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

/** Begins payments, after reading the rows that decide about all of them together. */
export function beginInBulk(
  begin: OperationTable<"beginPayment">["beginPayment"],
  payments: PaymentFinder,
  { rows }: SqliteEffects,
): BulkTable<"beginPayment">["beginPayment"] {
  return (operations) => {
    const intents = operations.map(({ input: [intent] }) => intent);
    payments.readNew(intents);
    rows.load(intents.flatMap((intent) => gateOf(intent)?.keys(intent) ?? []));
    const outcomes = operations.map(({ now, input }) => begin(now, ...input));
    rows.unload();
    return outcomes;
  };
}
