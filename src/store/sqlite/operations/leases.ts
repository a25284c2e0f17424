import type { JobCallOrigin } from "../../../core/job-call.ts";
import type { EndedLease, Lease } from "../../contract/work-queue.ts";
import {
  type AttemptColumns,
  afterRelease,
  afterRetry,
  type GivenBack,
  type LeaseColumns,
  leaseOutcome,
} from "../../rules/leases.ts";
import type { Database } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";
import type { JobCalls } from "./job-calls.ts";

interface CallRow extends LeaseColumns, AttemptColumns {
  readonly call_id: number;
  readonly origin: JobCallOrigin;
  readonly enqueued_at: number;
  readonly dead_at: number | null;
}

/** Operations on a lease, and those on dead letters that write. */
export function leaseOperations(
  database: Database,
  jobCalls: JobCalls,
): OperationTable<"ack" | "retry" | "fail" | "extend" | "release" | "retryDeadLetter" | "dropDeadLetter"> {
  const selectCall = database.prepare<CallRow>(
    `SELECT call_id, origin, state, visible_at, lease_token, attempts, forgiven, enqueued_at, dead_at
       FROM job_calls WHERE call_id = ?`,
  );
  const giveBack = database.prepare(
    `UPDATE job_calls
        SET state = ?, visible_at = ?, forgiven = ?, lease_token = NULL, subscriber = CASE WHEN ? THEN subscriber END
      WHERE call_id = ?`,
  );
  const extendLease = database.prepare("UPDATE job_calls SET visible_at = ? WHERE call_id = ?");
  const extendLeaseWithProgress = database.prepare(
    "UPDATE job_calls SET visible_at = ?, progress_percent = ?, progress_text = ? WHERE call_id = ?",
  );
  const revive = database.prepare(
    `UPDATE job_calls SET state = 'ready', forgiven = attempts, dead_at = NULL, dead_reason = NULL
      WHERE call_id = ? AND state = 'dead'`,
  );

  /** Ends a lease without success, in the way that `next` decides, if it still holds. */
  function end(now: number, lease: Lease, next: (row: CallRow) => GivenBack): EndedLease {
    const row = selectCall.get([lease.callId]);
    const outcome = leaseOutcome(row, lease, now);
    if (row === undefined || outcome !== "done") return { outcome };
    const becomes = next(row);
    if (becomes.state === "dead") return { outcome, buried: jobCalls.bury(row.call_id, becomes.reason, now) };
    const isDelayed = becomes.state === "delayed";
    const visibleAt = isDelayed ? becomes.visibleAt : null;
    const suspect = isDelayed && becomes.suspect ? 1 : 0;
    giveBack.run([becomes.state, visibleAt, becomes.forgiven, suspect, row.call_id]);
    return { outcome };
  }

  return {
    ack(now, lease, result) {
      const row = selectCall.get([lease.callId]);
      const outcome = leaseOutcome(row, lease, now);
      if (row !== undefined && outcome === "done") jobCalls.succeed(row, now, result);
      return outcome;
    },

    retry: (now, lease, retry) => end(now, lease, (row) => afterRetry(row, retry, now, Math.random())),
    fail: (now, lease, reason) => end(now, lease, () => ({ state: "dead", reason })),
    release: (now, lease, options) =>
      end(now, lease, (row) => afterRelease(row, options, now, Math.random())),

    extend(now, lease, leaseMs, progress) {
      const outcome = leaseOutcome(selectCall.get([lease.callId]), lease, now);
      if (outcome !== "done") return { outcome, leaseExpiresAt: 0 };
      const leaseExpiresAt = now + leaseMs;
      if (progress === undefined) extendLease.run([leaseExpiresAt, lease.callId]);
      else extendLeaseWithProgress.run([leaseExpiresAt, progress.percent, progress.text, lease.callId]);
      return { outcome, leaseExpiresAt };
    },

    retryDeadLetter(_now, callId) {
      const revived = revive.run([callId]).changes === 1;
      if (revived) jobCalls.revived();
      return revived;
    },

    dropDeadLetter(now, callId) {
      const row = selectCall.get([callId]);
      if (row?.state !== "dead") return false;
      jobCalls.drop(row, row.dead_at ?? now);
      return true;
    },
  };
}
