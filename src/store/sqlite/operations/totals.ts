import type { JobCallOrigin } from "../../../core/job-call.ts";
import type { PaymentState } from "../../../core/payment.ts";
import { type CallState, toTotals } from "../../call-row.ts";
import type { StoreTotals } from "../../store.ts";
import type { Database } from "../driver.ts";

/** {@link Store.totals}: counts the rows, so that they show it when the journal does not balance. */
export function totalsOperations(database: Database) {
  const countPayments = database.prepare<{ state: PaymentState; n: number }>(
    "SELECT state, count(*) AS n FROM payments GROUP BY state",
  );
  // As in a lookup, a lease that has run out is no lease.
  const countCalls = database.prepare<{ origin: JobCallOrigin; state: CallState; n: number }>(
    `SELECT origin, iif(state = 'leased' AND visible_at <= ?, 'ready', state) AS state, count(*) AS n
       FROM job_calls GROUP BY 1, 2`,
  );
  const countResults = database.prepare<{ state: "succeeded" | "failed"; n: number }>(
    "SELECT state, count(*) AS n FROM results GROUP BY state",
  );
  const selectOldest = database.prepare<{ at: number | null }>(
    `SELECT min(enqueued_at) AS at FROM job_calls
      WHERE state IN ('ready', 'delayed') OR state = 'leased' AND visible_at <= ?`,
  );
  return {
    totals(_input: unknown, now: number): StoreTotals {
      return toTotals({
        payments: countPayments.all([]),
        calls: countCalls.all([now]),
        results: countResults.all([]),
        oldestReadyAt: selectOldest.get([now])?.at ?? null,
      });
    },
  };
}
