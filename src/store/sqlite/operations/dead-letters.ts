import type { JobCallOrigin } from "../../../core/job-call.ts";
import type { Capacity } from "../../capacity.ts";
import type { Database } from "../driver.ts";
import type { FinishPaidCall } from "./results.ts";

/** Makes a JobCall a dead letter. */
export type BuryCall = (callId: number, reason: string, now: number) => void;

export function prepareBuryCall(database: Database, capacity: Capacity): BuryCall {
  const bury = database.prepare(
    `UPDATE job_calls
        SET state = 'dead', dead_at = ?, dead_reason = ?, visible_at = NULL, lease_token = NULL, subscriber = NULL
      WHERE call_id = ?`,
  );
  return (callId, reason, now) => {
    bury.run([now, reason, callId]);
    capacity.adjust(-1);
  };
}

interface DeadRow {
  origin: JobCallOrigin;
  attempts: number;
  enqueued_at: number;
  dead_at: number;
}

/** The {@link DeadLetterBox} operations that write. */
export function deadLetterOperations(database: Database, capacity: Capacity, finishPaidCall: FinishPaidCall) {
  // The operator decided: this may exceed max_pending.
  const revive = database.prepare(
    `UPDATE job_calls SET state = 'ready', forgiven = attempts, dead_at = NULL, dead_reason = NULL
      WHERE call_id = ? AND state = 'dead'`,
  );
  const select = database.prepare<DeadRow>(
    "SELECT origin, attempts, enqueued_at, dead_at FROM job_calls WHERE call_id = ? AND state = 'dead'",
  );
  const deleteCall = database.prepare("DELETE FROM job_calls WHERE call_id = ?");
  const deleteBody = database.prepare("DELETE FROM job_bodies WHERE call_id = ?");
  return {
    retryDeadLetter(input: { callId: number }): boolean {
      const revived = revive.run([input.callId]).changes === 1;
      if (revived) capacity.adjust(1);
      return revived;
    },

    dropDeadLetter(input: { callId: number }): boolean {
      const row = select.get([input.callId]);
      if (row === undefined) return false;
      deleteCall.run([input.callId]);
      deleteBody.run([input.callId]);
      if (row.origin === "x402") finishPaidCall(input.callId, "failed", row, row.dead_at);
      return true;
    },
  };
}
