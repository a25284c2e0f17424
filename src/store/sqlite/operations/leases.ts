import type { AckedLease, DecidedCharge, EndedLease, Lease } from "../../contract/work-queue.ts";
import type { EndedCall } from "../../machine/changes.ts";
import { decidedCharge } from "../../machine/metered.ts";
import { chargeEvent } from "../../machine/payments.ts";
import { STREAM_ENDED } from "../../rules/call-steps.ts";
import { AUTHORIZATION_ENDED, type ChargeColumns, chargeAtEnd, chargedUnits } from "../../rules/charges.ts";
import {
  type AttemptColumns,
  afterRelease,
  afterRetry,
  type GivenBack,
  type LeaseColumns,
  leaseOutcome,
} from "../../rules/leases.ts";
import { canRetry } from "../../rules/refunds.ts";
import { type Database, prepareRows } from "../driver.ts";
import type { BulkTable, OperationTable } from "../transaction.ts";
import type { SqliteEffects } from "./effects.ts";
import { appendStep, deliveryStep, type FinishedCall, type JobCalls } from "./job-calls.ts";

interface CallRow extends EndedCall, LeaseColumns, AttemptColumns, ChargeColumns {
  readonly enqueued_at: number;
}

const CALL_COLUMNS = [
  "call_id",
  "origin",
  "job_id",
  "service_id",
  "state",
  "visible_at",
  "lease_token",
  "attempts",
  "forgiven",
  "enqueued_at",
  "ceiling",
  "min_charge",
  "charge_so_far",
] as const;

/** Operations on a lease, and those on dead letters that write. */
export function leaseOperations(
  database: Database,
  jobCalls: JobCalls,
  effects: SqliteEffects,
): OperationTable<
  "ack" | "retry" | "fail" | "extend" | "release" | "retryDeadLetter" | "dropDeadLetter" | "endAuthorization"
> {
  const selectCall = database.prepare<CallRow>(
    `SELECT ${CALL_COLUMNS.join()} FROM job_calls WHERE call_id = ?`,
  );
  const giveBack = database.prepare(
    `UPDATE job_calls
        SET state = ?1, history = ${appendStep(deliveryStep({ to: "?5", reason: "?6" }))}, visible_at = ?2, forgiven = ?3,
            lease_token = NULL, subscriber = iif(?4, subscriber, NULL), claimed_at = NULL
      WHERE call_id = ?7`,
  );
  const extendLease = database.prepare("UPDATE job_calls SET visible_at = ? WHERE call_id = ?");
  const extendLeaseWithProgress = database.prepare(
    "UPDATE job_calls SET visible_at = ?, progress_percent = ?, progress_text = ? WHERE call_id = ?",
  );
  const noteCharge = database.prepare("UPDATE job_calls SET charge_so_far = ? WHERE call_id = ?");
  const revive = database.prepare(
    `UPDATE job_calls
        SET state = 'ready', forgiven = attempts, dead_at = NULL, dead_reason = NULL, dead_group = NULL,
            history = ${appendStep(`json_object('kind', 'revival', 'deadAt', dead_at, 'reason', dead_reason, 'at', ?1)`)}
      WHERE call_id = ?2 AND state = 'dead'`,
  );

  /** Ends a lease without success and for a reason, in the way that `next` decides, if it still holds. */
  function end(now: number, lease: Lease, reason: string, next: (row: CallRow) => GivenBack): EndedLease {
    const row = selectCall.get([lease.callId]);
    const outcome = leaseOutcome(row, lease, now);
    if (row === undefined || outcome !== "done") return { outcome };
    const becomes = next(row);
    if (becomes.state === "dead")
      return { outcome, buried: jobCalls.bury(row.call_id, becomes.reason, now, reason) };
    const isDelayed = becomes.state === "delayed";
    const visibleAt = isDelayed ? becomes.visibleAt : null;
    const suspect = isDelayed && becomes.suspect ? 1 : 0;
    giveBack.run([becomes.state, visibleAt, becomes.forgiven, suspect, now, reason, row.call_id]);
    return { outcome };
  }

  return {
    ack(now, lease, result, charge) {
      const row = selectCall.get([lease.callId]);
      const outcome = leaseOutcome(row, lease, now);
      if (row === undefined || outcome !== "done") return { outcome };
      return acked(row, jobCalls.succeed([{ call: row, now, result, charge }]));
    },

    retry: (now, lease, retry) =>
      end(now, lease, retry.reason, (row) => afterRetry(row, retry, now, Math.random())),
    fail: (now, lease, reason) => end(now, lease, reason, () => ({ state: "dead", reason })),
    release: (now, lease, options) =>
      end(now, lease, options.reason ?? STREAM_ENDED, (row) =>
        afterRelease(row, options, now, Math.random()),
      ),

    extend(now, lease, leaseMs, progress, chargeSoFar) {
      const row = selectCall.get([lease.callId]);
      const outcome = leaseOutcome(row, lease, now);
      if (row === undefined || outcome !== "done") return { outcome, leaseExpiresAt: 0 };
      if (row.ceiling !== null && chargeSoFar !== undefined)
        noteCharge.run([chargedUnits(row.ceiling, chargeSoFar), lease.callId]);
      const leaseExpiresAt = now + leaseMs;
      if (progress === undefined) extendLease.run([leaseExpiresAt, lease.callId]);
      else extendLeaseWithProgress.run([leaseExpiresAt, progress.percent, progress.text, lease.callId]);
      return { outcome, leaseExpiresAt };
    },

    endAuthorization(now, callId) {
      const row = selectCall.get([callId]);
      if (row === undefined) return { kind: "not_open" };
      const amount = chargeAtEnd(row, now);
      const payment = effects.payment(callId);
      const charge = decidedCharge(payment, amount ?? "0");
      if (payment === undefined || charge === undefined) return { kind: "not_open" };
      if (amount === undefined)
        return { kind: "buried", buried: jobCalls.bury(callId, AUTHORIZATION_ENDED, now) };
      effects.decide(payment, chargeEvent(amount), now);
      return { kind: "charged", charge };
    },

    retryDeadLetter(now, callId) {
      if (selectCall.get([callId])?.state !== "dead") return "not_found";
      if (!canRetry(effects.refund(callId))) return "refund_begun";
      revive.run([now, callId]);
      jobCalls.revived(callId);
      return "retried";
    },

    dropDeadLetter(_now, callId) {
      if (selectCall.get([callId])?.state !== "dead") return false;
      jobCalls.drop(callId);
      return true;
    },
  };
}

function acked(
  { call_id }: Pick<CallRow, "call_id">,
  charges: ReadonlyMap<number, DecidedCharge>,
): AckedLease {
  const charge = charges.get(call_id);
  return { outcome: "done", ...(charge && { charge }) };
}

export function ackInBulk(database: Database, jobCalls: JobCalls): NonNullable<BulkTable["ack"]> {
  const selectCalls = prepareRows<CallRow>(
    database,
    CALL_COLUMNS,
    "FROM job_calls WHERE call_id IN (SELECT value FROM json_each(?))",
  );
  return (operations) => {
    const callIds = operations.map(({ input: [{ callId }] }) => callId);
    const rows = new Map(selectCalls([JSON.stringify(callIds)]).map((row) => [row.call_id, row]));
    const finished: FinishedCall[] = [];
    const outcomes = operations.map(({ now, input: [lease, result, charge] }) => {
      const row = rows.get(lease.callId);
      const outcome = leaseOutcome(row, lease, now);
      if (row === undefined || outcome !== "done") return { outcome };
      rows.delete(lease.callId);
      finished.push({ call: row, now, result, charge });
      return row;
    });
    const charges = jobCalls.succeed(finished);
    return outcomes.map((outcome) => ("call_id" in outcome ? acked(outcome, charges) : outcome));
  };
}
