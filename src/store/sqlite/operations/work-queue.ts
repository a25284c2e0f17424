import type { JobCallOrigin } from "../../../core/job-call.ts";
import type { CallState } from "../../call-row.ts";
import type { Capacity } from "../../capacity.ts";
import type {
  ClaimedCall,
  ClaimRequest,
  JobResult,
  Lease,
  LeaseOutcome,
  Progress,
  ReleaseOptions,
  RetryRequest,
} from "../../contract/work-queue.ts";
import { retryDelayMs } from "../../rules/retry-delay.ts";
import type { Database } from "../driver.ts";
import type { BuryCall } from "./dead-letters.ts";
import { createLeaseTokens } from "./lease-tokens.ts";
import { prepareNextReady } from "./next-ready.ts";
import type { FinishPaidCall } from "./results.ts";

interface LeasedRow {
  origin: JobCallOrigin;
  state: CallState;
  visible_at: number | null;
  lease_token: string | null;
  attempts: number;
  forgiven: number;
  enqueued_at: number;
}

/** The {@link WorkQueue} operations. */
export function workQueueOperations(
  database: Database,
  capacity: Capacity,
  buryCall: BuryCall,
  finishPaidCall: FinishPaidCall,
) {
  const selectAnyDue = database.prepare(
    `SELECT 1 FROM job_calls INDEXED BY job_calls_waiting
      WHERE state IN ('leased', 'delayed') AND visible_at <= ? LIMIT 1`,
  );
  const readyDue = database.prepare(
    `UPDATE job_calls INDEXED BY job_calls_waiting
        SET state = 'ready', visible_at = NULL, lease_token = NULL, subscriber = NULL
      WHERE state IN ('leased', 'delayed') AND visible_at <= ?`,
  );
  const selectUsedUp = database.prepare<{ call_id: number }>(
    `SELECT call_id FROM job_calls INDEXED BY job_calls_waiting
      WHERE state IN ('leased', 'delayed') AND visible_at <= ? AND attempts - forgiven >= ?`,
  );
  const lease = database.prepare(
    `UPDATE job_calls
        SET state = 'leased', attempts = ?, visible_at = ?, lease_token = ?, subscriber = ?,
            progress_percent = NULL, progress_text = NULL
      WHERE call_id = ?`,
  );
  const selectBody = database.prepare<{ encoded: Uint8Array }>(
    "SELECT encoded FROM job_bodies WHERE call_id = ?",
  );
  const selectLeased = database.prepare<LeasedRow>(
    `SELECT origin, state, visible_at, lease_token, attempts, forgiven, enqueued_at
       FROM job_calls WHERE call_id = ?`,
  );
  const deleteCall = database.prepare("DELETE FROM job_calls WHERE call_id = ?");
  const deleteBody = database.prepare("DELETE FROM job_bodies WHERE call_id = ?");
  const giveBack = database.prepare(
    `UPDATE job_calls SET state = ?, visible_at = ?, forgiven = ?, lease_token = NULL, subscriber = NULL
      WHERE call_id = ?`,
  );
  const extendLease = database.prepare("UPDATE job_calls SET visible_at = ? WHERE call_id = ?");
  const extendLeaseWithProgress = database.prepare(
    "UPDATE job_calls SET visible_at = ?, progress_percent = ?, progress_text = ? WHERE call_id = ?",
  );
  const selectNextDue = database.prepare<{ due: number | null }>(
    `SELECT min(visible_at) AS due FROM job_calls INDEXED BY job_calls_waiting
      WHERE state IN ('leased', 'delayed')`,
  );
  const nextReady = prepareNextReady(database);
  const createLeaseToken = createLeaseTokens();

  /** Runs `finish` on the leased row if the lease still holds. */
  function withLease(held: Lease, now: number, finish: (row: LeasedRow) => void): LeaseOutcome {
    const row = selectLeased.get([held.callId]);
    if (row === undefined || row.state === "held" || row.state === "dead") return "not_found";
    const valid =
      row.state === "leased" &&
      row.lease_token === held.leaseToken &&
      row.visible_at !== null &&
      row.visible_at > now;
    if (!valid) return "lease_lost";
    finish(row);
    return "done";
  }

  function makeDue(now: number, maxAttempts: number): void {
    if (selectAnyDue.get([now]) === undefined) return;
    for (const { call_id } of selectUsedUp.all([now, maxAttempts])) buryCall(call_id, "max_attempts", now);
    readyDue.run([now]);
  }

  return {
    claim(request: ClaimRequest, now: number): ClaimedCall[] {
      makeDue(now, request.maxAttempts);
      const claimed: ClaimedCall[] = [];
      while (claimed.length < request.limit) {
        const rows = nextReady(request.jobIds, request.limit - claimed.length);
        if (rows.length === 0) break;
        for (const row of rows) {
          if (row.attempts - row.forgiven >= request.maxAttempts) {
            buryCall(row.call_id, "max_attempts", now);
            continue;
          }
          const body = selectBody.get([row.call_id]);
          if (body === undefined) throw new Error(`JobCall ${row.call_id} has no body`);
          const leaseToken = createLeaseToken();
          const attempt = row.attempts + 1;
          const leaseExpiresAt = now + request.leaseMs;
          lease.run([attempt, leaseExpiresAt, leaseToken, request.subscriber, row.call_id]);
          claimed.push({
            callId: row.call_id,
            leaseToken,
            encoded: body.encoded,
            attempt,
            enqueuedAt: row.enqueued_at,
            leaseExpiresAt,
          });
        }
      }
      return claimed;
    },

    ack(input: { lease: Lease; result?: JobResult | undefined }, now: number): LeaseOutcome {
      const { callId } = input.lease;
      return withLease(input.lease, now, (row) => {
        deleteCall.run([callId]);
        deleteBody.run([callId]);
        capacity.adjust(-1);
        if (row.origin === "x402") finishPaidCall(callId, "succeeded", row, now, input.result);
      });
    },

    retry(input: { lease: Lease; retry: RetryRequest }, now: number): LeaseOutcome {
      const { retry } = input;
      const { callId } = input.lease;
      return withLease(input.lease, now, (row) => {
        const counted = row.attempts - row.forgiven;
        if (counted >= retry.maxAttempts) {
          buryCall(callId, `max_attempts: ${retry.reason}`, now);
        } else if (retry.delayMs === 0) {
          giveBack.run(["ready", null, row.forgiven, callId]);
        } else {
          const delayMs = retry.delayMs ?? retryDelayMs(retry.backoff, counted, Math.random());
          giveBack.run(["delayed", now + delayMs, row.forgiven, callId]);
        }
      });
    },

    fail(input: { lease: Lease; reason: string }, now: number): LeaseOutcome {
      return withLease(input.lease, now, () => buryCall(input.lease.callId, input.reason, now));
    },

    extend(
      input: { lease: Lease; leaseMs: number; progress?: Progress | undefined },
      now: number,
    ): { outcome: LeaseOutcome; leaseExpiresAt: number } {
      const { progress } = input;
      const { callId } = input.lease;
      const leaseExpiresAt = now + input.leaseMs;
      const outcome = withLease(input.lease, now, () => {
        if (progress === undefined) extendLease.run([leaseExpiresAt, callId]);
        else extendLeaseWithProgress.run([leaseExpiresAt, progress.percent, progress.text, callId]);
      });
      return { outcome, leaseExpiresAt: outcome === "done" ? leaseExpiresAt : 0 };
    },

    release(input: { lease: Lease } & ReleaseOptions, now: number): LeaseOutcome {
      const { excused, maxAttempts } = input;
      const { callId } = input.lease;
      return withLease(input.lease, now, (row) => {
        const forgiven = row.forgiven + (excused ? 1 : 0);
        if (!excused && row.attempts - forgiven >= maxAttempts) buryCall(callId, "max_attempts", now);
        else giveBack.run(["ready", null, forgiven, callId]);
      });
    },

    nextDue(): number | undefined {
      return selectNextDue.get([])?.due ?? undefined;
    },
  };
}
