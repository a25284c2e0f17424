import type { JobCallOrigin } from "../../../job-call.ts";
import type { PaymentState } from "../../../payment.ts";
import type { StoreTotals } from "../../store.ts";
import type { CallState } from "../call-row.ts";
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
  return {
    totals(_input: unknown, now: number): StoreTotals {
      const payments = { intent: 0, settled: 0, failed: 0, unresolved: 0 };
      for (const { state, n } of countPayments.all([])) payments[state] = n;

      const calls = { held: 0, ready: 0, leased: 0, dead: 0 };
      const paidCalls = { ready: 0, leased: 0, done: 0, dead: 0 };
      for (const { origin, state, n } of countCalls.all([now])) {
        const total = state === "delayed" ? "ready" : state;
        calls[total] += n;
        if (origin === "x402" && total !== "held") paidCalls[total] += n;
      }
      for (const { state, n } of countResults.all([])) {
        paidCalls[state === "succeeded" ? "done" : "dead"] += n;
      }
      return { payments, calls, paidCalls };
    },
  };
}
