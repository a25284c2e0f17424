import type { JobCallOrigin } from "../../../core/job-call.ts";
import type { EndedLease, JobResult, Lease, LeaseOutcome, Progress } from "../../contract/work-queue.ts";
import type { Outcome } from "../../operations.ts";
import {
  type AttemptColumns,
  afterRelease,
  afterRetry,
  type GivenBack,
  type LeaseColumns,
  leaseOutcome,
} from "../../rules/leases.ts";
import { type Sql, statement, storable } from "../sql.ts";
import type { BatchContext, BatchPart, Entry } from "./batch.ts";
import { packed } from "./new-rows.ts";

/** Columns of a JobCall that can change. */
interface CallRow extends LeaseColumns, AttemptColumns {
  readonly call_id: number;
  readonly origin: JobCallOrigin;
  readonly subscriber: string | null;
  readonly progress_percent: number | null;
  readonly progress_text: string | null;
  readonly enqueued_at: number;
  readonly dead_at: number | null;
  readonly dead_reason: string | null;
}

interface FinishedCall {
  readonly row: CallRow;
  readonly state: "succeeded" | "failed";
  readonly finishedAt: number;
  readonly result?: JobResult | undefined;
}

// In the same order in all batches, so that no two wait for each other.
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

const NO_LEASE = { visible_at: null, lease_token: null, subscriber: null };

/** Operations on a lease, and those on dead letters that write. */
export class CallsPart implements BatchPart {
  readonly callIds = 0;
  readonly #entries: readonly CallEntry[];
  readonly #rows = new Map<number, CallRow>();
  readonly #changed = new Set<number>();
  readonly #finished: FinishedCall[] = [];

  constructor(entries: readonly CallEntry[]) {
    this.#entries = entries;
  }

  async load(sql: Sql): Promise<void> {
    if (this.#entries.length === 0) return;
    const callIds = this.#entries.map(({ input: [call] }) => (typeof call === "number" ? call : call.callId));
    for (const row of await sql.run(LOCK_CALLS, [callIds])) this.#rows.set(row.call_id, row);
  }

  async write(context: BatchContext): Promise<void> {
    for (const entry of this.#entries) this.#apply(entry, context);
    const changed = [...this.#changed].flatMap((callId) => this.#rows.get(callId) ?? []);
    await Promise.all([update(context.sql, changed), remove(context.sql, this.#finished)]);
  }

  #apply(entry: CallEntry, context: BatchContext): void {
    switch (entry.name) {
      case "ack": {
        const [lease, result] = entry.input;
        entry.decide(this.#ack(lease, result, context));
        break;
      }
      case "retry": {
        const [lease, retry] = entry.input;
        const next = (row: CallRow) => afterRetry(row, retry, context.now, Math.random());
        entry.decide(this.#end(lease, context, next));
        break;
      }
      case "release": {
        const [lease, options] = entry.input;
        const next = (row: CallRow) => afterRelease(row, options, context.now, Math.random());
        entry.decide(this.#end(lease, context, next));
        break;
      }
      case "fail": {
        const [lease, reason] = entry.input;
        entry.decide(this.#end(lease, context, () => ({ state: "dead", reason })));
        break;
      }
      case "extend": {
        const [lease, leaseMs, progress] = entry.input;
        entry.decide(this.#extend(lease, context.now + leaseMs, progress, context));
        break;
      }
      case "retryDeadLetter":
        entry.decide(this.#revive(entry.input[0], context));
        break;
      case "dropDeadLetter":
        entry.decide(this.#drop(entry.input[0], context));
        break;
    }
  }

  #ack(lease: Lease, result: JobResult | undefined, { now, capacity }: BatchContext): LeaseOutcome {
    const row = this.#rows.get(lease.callId);
    const outcome = leaseOutcome(row, lease, now);
    if (row === undefined || outcome !== "done") return outcome;
    this.#finish({ row, state: "succeeded", finishedAt: now, result });
    capacity.adjust(-1);
    return outcome;
  }

  #extend(
    lease: Lease,
    leaseExpiresAt: number,
    progress: Progress | undefined,
    { now }: BatchContext,
  ): Outcome<"extend"> {
    const row = this.#rows.get(lease.callId);
    const outcome = leaseOutcome(row, lease, now);
    if (row === undefined || outcome !== "done") return { outcome, leaseExpiresAt: 0 };
    const reported = progress && {
      progress_percent: progress.percent,
      progress_text: storable(progress.text),
    };
    this.#change(row, { visible_at: leaseExpiresAt, ...reported });
    return { outcome, leaseExpiresAt };
  }

  #revive(callId: number, { capacity, madeReady }: BatchContext): boolean {
    const row = this.#rows.get(callId);
    if (row?.state !== "dead") return false;
    this.#change(row, { state: "ready", forgiven: row.attempts, dead_at: null, dead_reason: null });
    // The operator decided: this may exceed max_pending.
    capacity.adjust(1);
    madeReady.add(callId);
    return true;
  }

  #drop(callId: number, { now }: BatchContext): boolean {
    const row = this.#rows.get(callId);
    if (row?.state !== "dead") return false;
    this.#finish({ row, state: "failed", finishedAt: row.dead_at ?? now });
    return true;
  }

  /** Ends a lease without success, in the way that `next` decides, if it still holds. */
  #end(lease: Lease, context: BatchContext, next: (row: CallRow) => GivenBack): EndedLease {
    const { now, capacity, madeReady } = context;
    const row = this.#rows.get(lease.callId);
    const outcome = leaseOutcome(row, lease, now);
    if (row === undefined || outcome !== "done") return { outcome };
    const becomes = next(row);
    if (becomes.state === "dead") {
      const reason = storable(becomes.reason);
      this.#change(row, { ...NO_LEASE, state: "dead", dead_at: now, dead_reason: reason });
      capacity.adjust(-1);
      return { outcome, buried: { callId: row.call_id, reason, deadAt: now } };
    }
    const { state, forgiven } = becomes;
    const isDelayed = becomes.state === "delayed";
    const visible_at = isDelayed ? becomes.visibleAt : null;
    const subscriber = isDelayed && becomes.suspect ? row.subscriber : null;
    this.#change(row, { ...NO_LEASE, state, forgiven, visible_at, subscriber });
    if (state === "ready") madeReady.add(row.call_id);
    return { outcome };
  }

  #change(row: CallRow, values: Partial<CallRow>): void {
    this.#rows.set(row.call_id, { ...row, ...values });
    this.#changed.add(row.call_id);
  }

  #finish(call: FinishedCall): void {
    this.#rows.delete(call.row.call_id);
    this.#finished.push(call);
  }
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

/** Keeps how paid calls ended, once their rows in `job_calls` are gone. */
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
    // Without a result there is no body, which differs from an empty one.
    starts.map((start, index) => (paid[index]?.result === undefined ? null : start)),
    lengths,
    paid.map(({ result }) => storable(result?.contentType)),
  ]);
}
