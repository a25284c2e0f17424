import type { JobCallOrigin } from "../../../core/job-call.ts";
import type { CallState } from "../../call-row.ts";
import type { JobResult, Lease, LeaseOutcome, RetryRequest } from "../../contract/work-queue.ts";
import { retryDelayMs } from "../../rules/retry-delay.ts";
import { type Sql, statement, storable } from "../sql.ts";
import type { BatchContext, BatchPart } from "./batch-context.ts";
import { packed } from "./new-rows.ts";
import type { Entry } from "./operations.ts";

/** What can change about a JobCall. */
interface CallRow {
  call_id: number;
  origin: JobCallOrigin;
  state: CallState;
  visible_at: number | null;
  attempts: number;
  forgiven: number;
  lease_token: string | null;
  subscriber: string | null;
  progress_percent: number | null;
  progress_text: string | null;
  enqueued_at: number;
  dead_at: number | null;
  dead_reason: string | null;
}

interface FinishedCall {
  readonly row: CallRow;
  readonly state: "succeeded" | "failed";
  readonly finishedAt: number;
  readonly result?: JobResult | undefined;
}

// In one order in all batches, so that no two wait for each other.
const LOCK_CALLS = statement<CallRow>(
  "lock_calls",
  `SELECT call_id, origin, state, visible_at, attempts, forgiven, lease_token, subscriber,
          progress_percent, progress_text, enqueued_at, dead_at, dead_reason
     FROM jobgate.job_calls WHERE call_id = ANY ($1::bigint[]) ORDER BY call_id FOR UPDATE`,
);
const UPDATE_CALLS = statement(
  "update_calls",
  `UPDATE jobgate.job_calls AS job_call
      SET state = new.state, visible_at = new.visible_at, forgiven = new.forgiven, lease_token = new.lease_token,
          subscriber = new.subscriber, progress_percent = new.progress_percent, progress_text = new.progress_text,
          dead_at = new.dead_at, dead_reason = new.dead_reason
     FROM json_populate_recordset(NULL::jobgate.job_calls, $1::json) AS new
    WHERE job_call.call_id = new.call_id`,
);
const DELETE_CALLS = statement(
  "delete_calls",
  "DELETE FROM jobgate.job_calls WHERE call_id = ANY ($1::bigint[])",
);
const DELETE_BODIES = statement(
  "delete_bodies",
  "DELETE FROM jobgate.job_bodies WHERE call_id = ANY ($1::bigint[])",
);
const INSERT_RESULTS = statement(
  "insert_results",
  `INSERT INTO jobgate.results (call_id, state, attempt, enqueued_at, finished_at, body, content_type)
   SELECT call_id, state, attempt, enqueued_at, finished_at, substring($6::bytea FROM start FOR length), content_type
     FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $7::int[], $8::int[], $9::text[])
       AS new (call_id, state, attempt, enqueued_at, finished_at, start, length, content_type)`,
);

type CallEntry = Entry<
  "ack" | "retry" | "fail" | "extend" | "release" | "retryDeadLetter" | "dropDeadLetter"
>;

/** The {@link WorkQueue} operations on a lease, and the {@link DeadLetterBox} operations that write. */
export function callsPart(entries: readonly CallEntry[]): BatchPart {
  const rows = new Map<number, CallRow>();
  const changed = new Set<CallRow>();
  const finished: FinishedCall[] = [];

  /** Runs `finish` on the leased row if the lease still holds. */
  function withLease(held: Lease, now: number, finish: (row: CallRow) => void): LeaseOutcome {
    const row = rows.get(held.callId);
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

  function change(row: CallRow, values: Partial<CallRow>): void {
    Object.assign(row, values);
    changed.add(row);
  }

  function giveBack(row: CallRow, values: Partial<CallRow> & { state: "ready" | "delayed" }): void {
    change(row, { visible_at: null, lease_token: null, subscriber: null, ...values });
  }

  function bury(row: CallRow, reason: string, { now, capacity }: BatchContext): void {
    const cleared = { visible_at: null, lease_token: null, subscriber: null };
    change(row, { ...cleared, state: "dead", dead_at: now, dead_reason: storable(reason) });
    capacity.adjust(-1);
  }

  function finish(call: FinishedCall): void {
    rows.delete(call.row.call_id);
    changed.delete(call.row);
    finished.push(call);
  }

  function retryLater(row: CallRow, retry: RetryRequest, context: BatchContext): void {
    const counted = row.attempts - row.forgiven;
    if (counted >= retry.maxAttempts) {
      bury(row, `max_attempts: ${retry.reason}`, context);
    } else if (retry.delayMs === 0) {
      giveBack(row, { state: "ready" });
      context.madeReady.add(row.call_id);
    } else {
      const delayMs = retry.delayMs ?? retryDelayMs(retry.backoff, counted, Math.random());
      giveBack(row, { state: "delayed", visible_at: context.now + delayMs });
    }
  }

  function apply(entry: CallEntry, context: BatchContext): void {
    const { now, capacity, madeReady } = context;
    switch (entry.name) {
      case "ack":
        entry.decide(
          withLease(entry.input.lease, now, (row) => {
            finish({ row, state: "succeeded", finishedAt: now, result: entry.input.result });
            capacity.adjust(-1);
          }),
        );
        break;
      case "retry":
        entry.decide(withLease(entry.input.lease, now, (row) => retryLater(row, entry.input.retry, context)));
        break;
      case "fail":
        entry.decide(withLease(entry.input.lease, now, (row) => bury(row, entry.input.reason, context)));
        break;
      case "extend": {
        const { lease, leaseMs, progress } = entry.input;
        const leaseExpiresAt = now + leaseMs;
        const outcome = withLease(lease, now, (row) => {
          change(row, { visible_at: leaseExpiresAt });
          if (progress === undefined) return;
          change(row, { progress_percent: progress.percent, progress_text: storable(progress.text) });
        });
        entry.decide({ outcome, leaseExpiresAt: outcome === "done" ? leaseExpiresAt : 0 });
        break;
      }
      case "release": {
        const { lease, excused, maxAttempts } = entry.input;
        entry.decide(
          withLease(lease, now, (row) => {
            const forgiven = row.forgiven + (excused ? 1 : 0);
            if (!excused && row.attempts - forgiven >= maxAttempts) return bury(row, "max_attempts", context);
            giveBack(row, { state: "ready", forgiven });
            madeReady.add(row.call_id);
          }),
        );
        break;
      }
      case "retryDeadLetter": {
        const row = rows.get(entry.input.callId);
        const isDead = row?.state === "dead";
        if (isDead) {
          // The operator decided: this may exceed max_pending.
          change(row, { state: "ready", forgiven: row.attempts, dead_at: null, dead_reason: null });
          capacity.adjust(1);
          madeReady.add(row.call_id);
        }
        entry.decide(isDead);
        break;
      }
      case "dropDeadLetter": {
        const row = rows.get(entry.input.callId);
        const isDead = row?.state === "dead";
        if (isDead) finish({ row, state: "failed", finishedAt: row.dead_at ?? now });
        entry.decide(isDead);
        break;
      }
    }
  }

  return {
    callIds: 0,
    async load(sql) {
      if (entries.length === 0) return;
      const callIds = entries.map(({ input }) => ("lease" in input ? input.lease.callId : input.callId));
      for (const row of await sql.run(LOCK_CALLS, [callIds])) rows.set(row.call_id, row);
    },
    async write(context) {
      for (const entry of entries) apply(entry, context);
      await Promise.all([update(context.sql, [...changed]), remove(context.sql, finished)]);
    },
  };
}

async function update(sql: Sql, rows: readonly CallRow[]): Promise<void> {
  if (rows.length > 0) await sql.run(UPDATE_CALLS, [JSON.stringify(rows)]);
}

async function remove(sql: Sql, finished: readonly FinishedCall[]): Promise<void> {
  if (finished.length === 0) return;
  const callIds = finished.map(({ row }) => row.call_id);
  await Promise.all([
    sql.run(DELETE_CALLS, [callIds]),
    sql.run(DELETE_BODIES, [callIds]),
    keepResults(
      sql,
      finished.filter(({ row }) => row.origin === "x402"),
    ),
  ]);
}

/** How paid calls ended is kept, once their rows in `job_calls` are gone. */
async function keepResults(sql: Sql, paid: readonly FinishedCall[]): Promise<void> {
  if (paid.length === 0) return;
  const { bytes, starts, lengths } = packed(paid.map(({ result }) => result?.body ?? new Uint8Array()));
  await sql.run(INSERT_RESULTS, [
    paid.map(({ row }) => row.call_id),
    paid.map(({ state }) => state),
    paid.map(({ row }) => row.attempts),
    paid.map(({ row }) => row.enqueued_at),
    paid.map(({ finishedAt }) => finishedAt),
    bytes,
    // Where there is no result, there is no body, which is another thing than an empty one.
    starts.map((start, index) => (paid[index]?.result === undefined ? null : start)),
    lengths,
    paid.map(({ result }) => storable(result?.contentType)),
  ]);
}
