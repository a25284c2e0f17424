import { beginsReady } from "../../../core/payment.ts";
import { WATCHED_MS } from "../../contract/payment-journal.ts";
import { beginStep, type PaymentStep, paymentSteps } from "../../machine/payment-steps.ts";
import { gateOf } from "../../modules/modules.ts";
import { isNonceUsed, useNonce } from "../../modules/one-time-nonces.ts";
import type { Capacity } from "../../new-call.ts";
import { ENDED_AT_ONCE, type OldWatch, selectOldWatches } from "../../payment-queries.ts";
import { PAYMENT_COLUMNS, toPaymentRow } from "../../payment-row.ts";
import { hasKeptBody } from "../../rules/payments.ts";
import { type Database, prepareInsert } from "../driver.ts";
import type { BulkTable, OperationTable } from "../transaction.ts";
import type { SqliteEffects } from "./effects.ts";
import { DIALECT } from "./modules.ts";
import type { NewCalls } from "./new-calls.ts";
import type { PaymentFinder, Undecided } from "./payment-rows.ts";

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
  const selectOld = database.prepare<OldWatch>(selectOldWatches(DIALECT, "?"));
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
      const old = selectOld.all([now - WATCHED_MS]);
      for (const watch of old) {
        endWatch.run([watch.call_id]);
        if (hasKeptBody(watch)) dropBody.run([watch.call_id]);
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
