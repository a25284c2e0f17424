import {
  CALL_COLUMNS,
  type CallRow,
  type CallRows,
  type FinishedCall,
} from "../../../store/machine/call-row.ts";
import { isDue } from "../../../store/rules/leases.ts";
import { NOW, numberArray, type Sql, statement, storable, toJson } from "../sql.ts";
import { packed } from "./new-rows.ts";

/** Most leases and delays that one batch ends. */
const DUE_AT_ONCE = 5_000;

// Ordered alike in all batches, so that no two wait for each other.
const LOCK_CALLS = statement<CallRow>(
  "lock_calls",
  `SELECT ${CALL_COLUMNS.join()} FROM jobgate.job_calls
    WHERE call_id = ANY ($1::bigint[]) ORDER BY call_id FOR UPDATE`,
);
// Skips rows that another batch has locked, because that batch is changing them. Suspects wait for a claim.
const LOCK_DUE = statement<CallRow>(
  "lock_due",
  `SELECT ${CALL_COLUMNS.join()} FROM jobgate.job_calls WHERE ${isDue(NOW, "$2::bigint")}
    ORDER BY visible_at LIMIT ${DUE_AT_ONCE} FOR UPDATE SKIP LOCKED`,
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
const ENDED_COLUMNS =
  "call_id, state, attempts, enqueued_at, dead_at, dead_reason, origin, job_id, service_id, subscriber, claimed_at, history";
// Keeps the outcomes of JobCalls, and the results of paid JobCalls: $3 has all bytes, $5 the offset of each result. A
// JobCall without a result has no body, which differs from an empty body. $9 has status, headers and size in chunks of
// results that have any, by call ID, and $10 the calls that failed.
const FINISH_CALLS = statement(
  "finish_calls",
  `WITH call AS (DELETE FROM jobgate.job_calls WHERE call_id = ANY ($1::bigint[]) RETURNING ${ENDED_COLUMNS}),
        body AS (DELETE FROM jobgate.job_bodies WHERE call_id = ANY ($1::bigint[])
                 RETURNING call_id, substring(encoded FROM 1 FOR head_bytes) AS head),
        finished AS (
          INSERT INTO jobgate.finished_calls (call_id, origin, job_id, service_id, state, attempts, enqueued_at,
                                              finished_at, reason, subscriber, claimed_at, history, head, status)
          SELECT call_id, origin, job_id, service_id,
                 CASE WHEN call_id = ANY ($10::bigint[]) THEN 'failed' ELSE 'succeeded' END, attempts,
                 enqueued_at, COALESCE(dead_at, $2::bigint), dead_reason, subscriber, claimed_at, history, head, answer.status
            FROM call LEFT JOIN body USING (call_id)
           CROSS JOIN LATERAL (SELECT ($9::json #>> ARRAY[call_id::text, 'status'])::int AS status) AS answer
          RETURNING call_id, origin, state, attempts, enqueued_at, finished_at, reason, status)
   INSERT INTO jobgate.results (call_id, state, attempt, enqueued_at, finished_at, reason, body, content_type, charge,
                                status, headers, stored_bytes)
   SELECT call_id, state, attempts, enqueued_at, finished_at, reason,
          CASE WHEN $9::json #>> ARRAY[call_id::text, 'storedBytes'] IS NULL THEN substring($3::bytea FROM start FOR length) END,
          content_type, $8::json ->> call_id::text, status, $9::json #>> ARRAY[call_id::text, 'headers'],
          ($9::json #>> ARRAY[call_id::text, 'storedBytes'])::bigint
     FROM finished LEFT JOIN unnest($4::bigint[], $5::int[], $6::int[], $7::text[])
                             AS result (call_id, start, length, content_type) USING (call_id)
    WHERE origin = 'x402'`,
);

const ADD_CHUNKS = statement(
  "add_chunks",
  `INSERT INTO jobgate.result_chunks (call_id, attempt, place, bytes)
   SELECT call_id, attempt, place, substring($1::bytea FROM start FOR length)
     FROM unnest($2::bigint[], $3::bigint[], $4::int[], $5::int[], $6::int[]) AS chunk (call_id, attempt, place, start, length)
   ON CONFLICT (call_id, attempt, place) DO UPDATE SET bytes = excluded.bytes`,
);

/** Chunk of the result of one delivery. */
interface Chunk {
  readonly callId: number;
  readonly attempt: number;
  readonly place: number;
  readonly bytes: Uint8Array;
}

interface FinishedRow extends Omit<FinishedCall, "at"> {
  readonly row: CallRow;
}

/** Unfinished JobCalls that a batch has locked, with the batch's changes to them. */
export class PostgresCallRows implements CallRows {
  readonly #madeReady: Set<number>;
  readonly #rows = new Map<number, CallRow>();
  #changed = new Map<number, CallRow>();
  #finished: FinishedRow[] = [];
  /** Chunks by call, delivery and position, because a statement can write each row only once. */
  #chunks = new Map<string, Chunk>();

  /** @param madeReady JobCalls that the batch made ready */
  constructor(madeReady: Set<number>) {
    this.#madeReady = madeReady;
  }

  async lock(sql: Sql, callIds: readonly number[]): Promise<void> {
    for (const row of await sql.run(LOCK_CALLS, [numberArray(callIds)])) this.#rows.set(row.call_id, row);
  }

  /** Locks JobCalls whose lease or delay is over. @param now replaces the database's clock */
  async lockDue(sql: Sql, now: number | null, maxAttempts: number): Promise<void> {
    for (const row of await sql.run(LOCK_DUE, [now, maxAttempts])) this.#rows.set(row.call_id, row);
  }

  /** All JobCalls that are locked and not finished. */
  get locked(): CallRow[] {
    return [...this.#rows.values()];
  }

  find(callId: number): CallRow | undefined {
    return this.#rows.get(callId);
  }

  findLeased(callId: number): CallRow | undefined {
    return this.find(callId);
  }

  change(row: CallRow): void {
    this.extend(row);
    if (row.state === "ready") this.#madeReady.add(row.call_id);
    else this.#madeReady.delete(row.call_id);
  }

  makeReady(rows: readonly CallRow[]): void {
    for (const row of rows) this.change(row);
  }

  extend(row: CallRow): void {
    this.#rows.set(row.call_id, row);
    this.#changed.set(row.call_id, row);
  }

  finish(row: CallRow, { state, result, charge }: FinishedCall): void {
    this.#rows.delete(row.call_id);
    this.#finished.push({ row, state, result, charge });
  }

  addChunk({ call_id: callId, attempts: attempt }: CallRow, place: number, bytes: Uint8Array): void {
    this.#chunks.set(`${callId} ${attempt} ${place}`, { callId, attempt, place, bytes });
  }

  drop(row: CallRow): void {
    this.#rows.delete(row.call_id);
    this.#finished.push({ row, state: "failed", result: undefined, charge: null });
  }

  /** Writes the changes since the last call. Sends its statements before it first waits. */
  async write(sql: Sql, now: number): Promise<void> {
    const changed = [...this.#changed.values()];
    const finished = this.#finished;
    this.#changed = new Map();
    this.#finished = [];
    const chunks = [...this.#chunks.values()];
    this.#chunks = new Map();
    await Promise.all([
      changed.length === 0 ? [] : sql.run(UPDATE_CALLS, [toJson(changed)]),
      chunks.length === 0 ? [] : sql.run(ADD_CHUNKS, adding(chunks)),
      finished.length === 0 ? [] : sql.run(FINISH_CALLS, finishing(finished, now)),
    ]);
  }
}

function adding(chunks: readonly Chunk[]): unknown[] {
  const { bytes, starts, lengths } = packed(chunks.map((chunk) => chunk.bytes));
  const columns = [
    chunks.map(({ callId }) => callId),
    chunks.map(({ attempt }) => attempt),
    chunks.map(({ place }) => place),
    starts,
    lengths,
  ];
  return [bytes, ...columns.map(numberArray)];
}

function finishing(finished: readonly FinishedRow[], now: number): unknown[] {
  const results = finished.flatMap(({ row, result }) =>
    row.origin === "x402" && result !== undefined ? [{ callId: row.call_id, ...result }] : [],
  );
  const { bytes, starts, lengths } = packed(results.map(({ body }) => body));
  const charges = finished.flatMap(({ row, charge }) => (charge === null ? [] : [[row.call_id, charge]]));
  const answers = finished.flatMap(({ row, result: { status, headers, storedBytes } = {} }) =>
    status === undefined && headers === undefined && storedBytes === undefined
      ? []
      : [[row.call_id, { status, headers, storedBytes }]],
  );
  return [
    numberArray(finished.map(({ row }) => row.call_id)),
    now,
    bytes,
    numberArray(results.map(({ callId }) => callId)),
    numberArray(starts),
    numberArray(lengths),
    results.map(({ contentType }) => storable(contentType)),
    JSON.stringify(Object.fromEntries(charges)),
    JSON.stringify(Object.fromEntries(answers)),
    numberArray(finished.flatMap(({ row, state }) => (state === "failed" ? row.call_id : []))),
  ];
}
