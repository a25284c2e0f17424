import type {
  AckedLease,
  BuriedCall,
  Charge,
  EndedLease,
  JobResult,
  Lease,
  Progress,
} from "../../../store/contract/work-queue.ts";
import type { EndedCall } from "../../../store/machine/changes.ts";
import { decidedCharge } from "../../../store/machine/metered.ts";
import { chargeEvent } from "../../../store/machine/payments.ts";
import type { Outcome } from "../../../store/operations.ts";
import { type CallStep, STREAM_ENDED, withStep } from "../../../store/rules/call-steps.ts";
import {
  AUTHORIZATION_ENDED,
  type ChargeColumns,
  chargeAtEnd,
  chargedUnits,
} from "../../../store/rules/charges.ts";
import {
  type AttemptColumns,
  afterRelease,
  afterRetry,
  type GivenBack,
  type LeaseColumns,
  leaseOutcome,
} from "../../../store/rules/leases.ts";
import { canRetry } from "../../../store/rules/refunds.ts";
import { numberArray, type Sql, statement, storable } from "../sql.ts";
import type { BatchContext, BatchPart, Entry } from "./batch.ts";
import type { PostgresEffects } from "./effects.ts";
import { packed } from "./new-rows.ts";

/** Columns of a JobCall that can change. */
interface CallRow extends EndedCall, LeaseColumns, AttemptColumns, ChargeColumns {
  readonly subscriber: string | null;
  readonly claimed_at: number | null;
  readonly history: readonly CallStep[] | null;
  readonly progress_percent: number | null;
  readonly progress_text: string | null;
  readonly dead_at: number | null;
  readonly dead_reason: string | null;
}

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

const NO_LEASE = { visible_at: null, lease_token: null, subscriber: null, claimed_at: null };

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
    effects.willChangeRefunds(callIdsOf(ending.filter(({ name }) => name !== "ack")));
    const rows = await sql.run(LOCK_CALLS, [numberArray(callIdsOf(this.#entries))]);
    for (const row of rows) this.#rows.set(row.call_id, row);
  }

  async write(context: BatchContext): Promise<void> {
    for (const entry of this.#entries) this.#apply(entry, context);
    const changed = [...this.#changed].flatMap((callId) => this.#rows.get(callId) ?? []);
    const rows = [
      ...changed,
      ...this.#finished.flatMap(({ row }) => (this.#changed.has(row.call_id) ? row : [])),
    ];
    await Promise.all([update(context.sql, rows), finish(context, this.#finished)]);
  }

  #apply(entry: CallEntry, context: BatchContext): void {
    switch (entry.name) {
      case "ack": {
        const [lease, result, charge] = entry.input;
        entry.decide(this.#ack(lease, { result, charge }, context));
        break;
      }
      case "retry": {
        const [lease, retry] = entry.input;
        const next = (row: CallRow) => afterRetry(row, retry, context.now, Math.random());
        entry.decide(this.#end(lease, context, retry.reason, next));
        break;
      }
      case "release": {
        const [lease, options] = entry.input;
        const next = (row: CallRow) => afterRelease(row, options, context.now, Math.random());
        entry.decide(this.#end(lease, context, options.reason ?? STREAM_ENDED, next));
        break;
      }
      case "fail": {
        const [lease, reason] = entry.input;
        entry.decide(this.#end(lease, context, reason, () => ({ state: "dead", reason })));
        break;
      }
      case "extend": {
        const [lease, leaseMs, progress, chargeSoFar] = entry.input;
        const reported = { progress, chargeSoFar };
        entry.decide(this.#extend(lease, context.now + leaseMs, reported, context));
        break;
      }
      case "retryDeadLetter":
        entry.decide(this.#revive(entry.input[0], context));
        break;
      case "dropDeadLetter":
        entry.decide(this.#drop(entry.input[0]));
        break;
      case "endAuthorization":
        entry.decide(this.#endAuthorization(entry.input[0], context));
        break;
    }
  }

  #ack(
    lease: Lease,
    { result, charge }: { readonly result: JobResult | undefined; readonly charge: Charge | undefined },
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

  #extend(
    lease: Lease,
    leaseExpiresAt: number,
    report: { readonly progress: Progress | undefined; readonly chargeSoFar: Charge | undefined },
    { now }: BatchContext,
  ): Outcome<"extend"> {
    const row = this.#rows.get(lease.callId);
    const outcome = leaseOutcome(row, lease, now);
    if (row === undefined || outcome !== "done") return { outcome, leaseExpiresAt: 0 };
    const { progress, chargeSoFar } = report;
    const charged =
      row.ceiling !== null && chargeSoFar !== undefined
        ? { charge_so_far: chargedUnits(row.ceiling, chargeSoFar) }
        : {};
    const reported = progress && {
      progress_percent: progress.percent,
      progress_text: storable(progress.text),
    };
    this.#change(row, { visible_at: leaseExpiresAt, ...reported, ...charged });
    return { outcome, leaseExpiresAt };
  }

  #revive(callId: number, { now, capacity, madeReady, effects }: BatchContext): Outcome<"retryDeadLetter"> {
    const row = this.#rows.get(callId);
    if (row?.state !== "dead") return "not_found";
    const { history, dead_at, dead_reason } = row;
    if (!canRetry(effects.refund(callId))) return "refund_begun";
    const step = { kind: "revival", deadAt: dead_at ?? now, reason: dead_reason ?? "", at: now } as const;
    this.#change(row, {
      state: "ready",
      forgiven: row.attempts,
      dead_at: null,
      dead_reason: null,
      history: withStep(history, step),
    });
    effects.note({ kind: "revived", callId });
    // The operator decided: this may exceed max_pending.
    capacity.adjust(1);
    madeReady.add(callId);
    return "retried";
  }

  #drop(callId: number): boolean {
    const row = this.#rows.get(callId);
    if (row?.state !== "dead") return false;
    this.#finish(row, undefined, null);
    return true;
  }

  #endAuthorization(callId: number, context: BatchContext): Outcome<"endAuthorization"> {
    const row = this.#rows.get(callId);
    if (row === undefined) return { kind: "not_open" };
    const amount = chargeAtEnd(row, context.now);
    const payment = context.effects.payment(callId);
    const charge = decidedCharge(payment, amount ?? "0");
    if (payment === undefined || charge === undefined) return { kind: "not_open" };
    if (amount === undefined)
      return { kind: "buried", buried: this.#bury(row, AUTHORIZATION_ENDED, context) };
    context.effects.decide(payment, chargeEvent(amount), context.now);
    return { kind: "charged", charge };
  }

  /** Ends a lease without success and for a reason, in the way that `next` decides, if it still holds. */
  #end(lease: Lease, context: BatchContext, endedBy: string, next: (row: CallRow) => GivenBack): EndedLease {
    const { now, madeReady } = context;
    const row = this.#rows.get(lease.callId);
    const outcome = leaseOutcome(row, lease, now);
    if (row === undefined || outcome !== "done") return { outcome };
    const becomes = next(row);
    const history = withStep(row.history, {
      kind: "delivery",
      attempt: row.attempts,
      subscriber: row.subscriber ?? "",
      from: row.claimed_at ?? now,
      to: now,
      reason: storable(endedBy),
    });
    if (becomes.state === "dead")
      return { outcome, buried: this.#bury({ ...row, history }, storable(becomes.reason), context) };
    const { state, forgiven } = becomes;
    const isDelayed = becomes.state === "delayed";
    const visible_at = isDelayed ? becomes.visibleAt : null;
    const subscriber = isDelayed && becomes.suspect ? row.subscriber : null;
    this.#change(row, { ...NO_LEASE, state, forgiven, visible_at, subscriber, history });
    if (state === "ready") madeReady.add(row.call_id);
    return { outcome };
  }

  #bury(row: CallRow, reason: string, { now, capacity, effects }: BatchContext): BuriedCall {
    this.#change(row, { ...NO_LEASE, state: "dead", dead_at: now, dead_reason: reason });
    capacity.adjust(-1);
    return effects.buried(row, reason, now);
  }

  #change(row: CallRow, values: Partial<CallRow>): void {
    this.#rows.set(row.call_id, { ...row, ...values });
    this.#changed.add(row.call_id);
  }

  #finish(row: CallRow, result: JobResult | undefined, charge: string | null): void {
    this.#rows.delete(row.call_id);
    this.#finished.push({ row, result, charge });
  }
}

function callIdsOf(entries: readonly CallEntry[]): number[] {
  return entries.map(({ input: [call] }) => (typeof call === "number" ? call : call.callId));
}

async function update(sql: Sql, rows: readonly CallRow[]): Promise<void> {
  if (rows.length > 0) await sql.run(UPDATE_CALLS, [JSON.stringify(rows)]);
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
