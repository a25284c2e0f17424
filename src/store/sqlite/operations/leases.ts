import type { AckedLease, DecidedCharge } from "../../contract/work-queue.ts";
import type { EndedCall } from "../../machine/changes.ts";
import type { LeaseSteps } from "../../machine/leases.ts";
import { type LeaseColumns, leaseOutcome } from "../../rules/leases.ts";
import { type Database, prepareRows } from "../driver.ts";
import type { BulkTable, OperationTable } from "../transaction.ts";
import type { FinishedCall, JobCalls } from "./job-calls.ts";

interface AckedRow extends EndedCall, LeaseColumns {
  readonly enqueued_at: number;
  readonly ceiling: string | null;
}

const ACKED_COLUMNS = [
  "call_id",
  "origin",
  "job_id",
  "service_id",
  "state",
  "visible_at",
  "lease_token",
  "attempts",
  "enqueued_at",
  "ceiling",
] as const;

/** Operations on a lease, and operations on dead letters that write. */
export function leaseOperations(
  steps: LeaseSteps,
  ackAll: NonNullable<BulkTable["ack"]>,
): OperationTable<
  "ack" | "retry" | "fail" | "extend" | "release" | "retryDeadLetter" | "dropDeadLetter" | "endAuthorization"
> {
  return {
    ack: (now, ...input) => ackAll([{ now, input }])[0] ?? { outcome: "not_found" },
    retry: (...input) => steps.retry(...input),
    fail: (...input) => steps.fail(...input),
    release: (...input) => steps.release(...input),
    extend: (...input) => steps.extend(...input),
    retryDeadLetter: (...input) => steps.retryDeadLetter(...input),
    dropDeadLetter: (...input) => steps.dropDeadLetter(...input),
    endAuthorization: (...input) => steps.endAuthorization(...input),
  };
}

export function ackInBulk(database: Database, jobCalls: JobCalls): NonNullable<BulkTable["ack"]> {
  const selectCalls = prepareRows<AckedRow>(
    database,
    ACKED_COLUMNS,
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

function acked(
  { call_id }: Pick<AckedRow, "call_id">,
  charges: ReadonlyMap<number, DecidedCharge>,
): AckedLease {
  const charge = charges.get(call_id);
  return charge === undefined ? { outcome: "done" } : { outcome: "done", charge };
}
