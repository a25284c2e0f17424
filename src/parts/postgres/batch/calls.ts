import type { AckedLease, Charge, JobResult, Lease } from "../../../store/contract/work-queue.ts";
import { type CallRow, type CallRows, LeaseSteps } from "../../../store/machine/leases.ts";
import { decidedCharge } from "../../../store/machine/metered.ts";
import { chargedUnits } from "../../../store/rules/charges.ts";
import { leaseOutcome } from "../../../store/rules/leases.ts";
import { numberArray, type Sql, statement, storable, toJson } from "../sql.ts";
import type { BatchContext, BatchPart, Entry } from "./batch.ts";
import type { PostgresEffects } from "./effects.ts";
import { packed } from "./new-rows.ts";

interface FinishedCall {
  readonly row: CallRow;
  readonly result: JobResult | undefined;
  /** Null: nothing to charge, because it is not paid by use. */
  readonly charge: string | null;
}

// Ordered alike in all batches, so that no two wait for each other.
const LOCK_CALLS = statement<CallRow>(
  "lock_calls",
  `SELECT call_id, origin, job_id, service_id, state, visible_at, attempts, forgiven, lease_token, subscriber, claimed_at, history,
          progress_percent, progress_text, dead_at, dead_reason, ceiling, min_charge, charge_so_far
     FROM jobgate.job_calls WHERE call_id = ANY ($1::bigint[]) ORDER BY call_id FOR UPDATE`,
);
const UPDATE_CALLS = statement(
  "update_calls",
  `UPDATE jobgate.job_calls AS job_call
      SET state = new.state, visible_at = new.visible_at, forgiven = new.forgiven, lease_token = new.lease_token,
          subscriber = new.subscriber, claimed_at = new.claimed_at, history = new.history, progress_percent = new.progress_percent, progress_text = new.progress_text,
          dead_at = new.dead_at, dead_reason = new.dead_reason, charge_so_far = new.charge_so_far
     FROM json_populate_recordset(NULL::jobgate.job_calls, $1::json) AS new
    WHERE job_call.call_id = new.call_id`,
);
const CALL_COLUMNS =
  "call_id, state, attempts, enqueued_at, dead_at, dead_reason, origin, job_id, service_id, subscriber, claimed_at, history";
// Keeps how they ended, and the results of paid ones: $3 has all bytes, $5 where each begins. Without a result there is no
// body, which differs from an empty one.
const FINISH_CALLS = statement(
  "finish_calls",
  `WITH call AS (DELETE FROM jobgate.job_calls WHERE call_id = ANY ($1::bigint[]) RETURNING ${CALL_COLUMNS}),
        body AS (DELETE FROM jobgate.job_bodies WHERE call_id = ANY ($1::bigint[])
                 RETURNING call_id, substring(encoded FROM 1 FOR head_bytes) AS head),
        finished AS (
          INSERT INTO jobgate.finished_calls (call_id, origin, job_id, service_id, state, attempts, enqueued_at,
                                              finished_at, reason, subscriber, claimed_at, history, head)
          SELECT call_id, origin, job_id, service_id, CASE state WHEN 'dead' THEN 'failed' ELSE 'succeeded' END, attempts,
                 enqueued_at, COALESCE(dead_at, $2::bigint), dead_reason, subscriber, claimed_at, history, head
            FROM call LEFT JOIN body USING (call_id)
          RETURNING call_id, origin, state, attempts, enqueued_at, finished_at, reason)
   INSERT INTO jobgate.results (call_id, state, attempt, enqueued_at, finished_at, reason, body, content_type, charge)
   SELECT call_id, state, attempts, enqueued_at, finished_at, reason, substring($3::bytea FROM start FOR length),
          content_type, $8::json ->> call_id::text
     FROM finished LEFT JOIN unnest($4::bigint[], $5::int[], $6::int[], $7::text[])
                             AS result (call_id, start, length, content_type) USING (call_id)
    WHERE origin = 'x402'`,
);

type CallEntry = Entry<
  "ack" | "retry" | "fail" | "extend" | "release" | "retryDeadLetter" | "dropDeadLetter" | "endAuthorization"
>;

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

  async load(sql: Sql, effects: PostgresEffects): Promise<void> {
    if (this.#entries.length === 0) return;
    const ending = this.#entries.filter(({ name }) => name !== "extend" && name !== "dropDeadLetter");
    effects.willNeedPayments(callIdsOf(ending));
    effects.willEnd(callIdsOf(ending.filter(({ name }) => name !== "ack")));
    const rows = await sql.run(LOCK_CALLS, [numberArray(callIdsOf(this.#entries))]);
    for (const row of rows) this.#rows.set(row.call_id, row);
  }

  async write(context: BatchContext): Promise<void> {
    const { now, capacity, effects } = context;
    const steps = new LeaseSteps(this.#callRows(context), capacity, effects);
    for (const entry of this.#entries) {
      if (entry.name === "ack") {
        const [lease, result, charge] = entry.input;
        entry.decide(this.#ack(lease, result, charge, context));
      } else (entry as AnyEntry).decide((steps[entry.name] as AnyStep).call(steps, now, ...entry.input));
    }
    const changed = [...this.#changed].flatMap((callId) => this.#rows.get(callId) ?? []);
    const rows = [
      ...changed,
      ...this.#finished.flatMap(({ row }) => (this.#changed.has(row.call_id) ? row : [])),
    ];
    await Promise.all([update(context.sql, rows), finish(context, this.#finished)]);
  }

  #callRows({ madeReady }: BatchContext): CallRows {
    const change = (row: CallRow) => {
      this.#rows.set(row.call_id, row);
      this.#changed.add(row.call_id);
      if (row.state === "ready") madeReady.add(row.call_id);
    };
    return {
      find: (callId) => this.#rows.get(callId),
      change,
      extend: change,
      drop: (row) => this.#finish(row, undefined, null),
    };
  }

  #ack(
    lease: Lease,
    result: JobResult | undefined,
    charge: Charge | undefined,
    { now, capacity, effects }: BatchContext,
  ): AckedLease {
    const row = this.#rows.get(lease.callId);
    const outcome = leaseOutcome(row, lease, now);
    if (row === undefined || outcome !== "done") return { outcome };
    const amount = row.ceiling === null ? null : chargedUnits(row.ceiling, charge);
    this.#finish(row, result, amount);
    capacity.adjust(-1);
    const decided = amount === null ? undefined : decidedCharge(effects.payment(row.call_id), amount);
    effects.finished(row, amount, now);
    return decided === undefined ? { outcome } : { outcome, charge: decided };
  }

  #finish(row: CallRow, result: JobResult | undefined, charge: string | null): void {
    this.#rows.delete(row.call_id);
    this.#finished.push({ row, result, charge });
  }
}

type AnyStep = (now: number, ...input: readonly unknown[]) => unknown;
type AnyEntry = { decide(outcome: unknown): void };

function callIdsOf(entries: readonly CallEntry[]): number[] {
  return entries.map(({ input: [call] }) => (typeof call === "number" ? call : call.callId));
}

async function update(sql: Sql, rows: readonly CallRow[]): Promise<void> {
  if (rows.length > 0) await sql.run(UPDATE_CALLS, [toJson(rows)]);
}

/** Removes JobCalls, and keeps how they ended. */
async function finish({ sql, now }: BatchContext, finished: readonly FinishedCall[]): Promise<void> {
  if (finished.length === 0) return;
  const results = finished.flatMap(({ row, result }) =>
    row.origin === "x402" && result !== undefined ? [{ callId: row.call_id, ...result }] : [],
  );
  const { bytes, starts, lengths } = packed(results.map(({ body }) => body));
  await sql.run(FINISH_CALLS, [
    numberArray(finished.map(({ row }) => row.call_id)),
    now,
    bytes,
    numberArray(results.map(({ callId }) => callId)),
    numberArray(starts),
    numberArray(lengths),
    results.map(({ contentType }) => storable(contentType)),
    JSON.stringify(
      Object.fromEntries(
        finished.flatMap(({ row, charge }) => (charge === null ? [] : [[row.call_id, charge]])),
      ),
    ),
  ]);
}
