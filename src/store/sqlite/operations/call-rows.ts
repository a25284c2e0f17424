import { groupedReason } from "../../contract/dead-letter-box.ts";
import {
  CALL_COLUMNS,
  type CallRow,
  type CallRows,
  type FinishedCall,
  type LeasedRow,
} from "../../machine/call-row.ts";
import type { LeaseSteps } from "../../machine/leases.ts";
import { isDue } from "../../rules/leases.ts";
import { type Database, prepareRows, type Statement } from "../driver.ts";
import type { BulkTable } from "../transaction.ts";
import type { SqliteEffects } from "./effects.ts";

type Rows<Row, Parameters extends readonly unknown[]> = (parameters: Parameters) => Row[];

/** Largest number of leases and delays that are read at once. */
export const DUE_AT_ONCE = 5_000;

const FINISHED_COLUMNS = `call_id, origin, job_id, service_id, attempts, enqueued_at, subscriber, claimed_at, history,
  head, state, finished_at, reason, status`;
const COPIED_COLUMNS = `call_id, origin, job_id, service_id, attempts, enqueued_at, subscriber, claimed_at, history,
  substr(encoded, 1, head_bytes)`;

/** Rows of JobCalls that operations on leases and dead letters change. */
export class SqliteCallRows implements CallRows {
  readonly #select: Rows<CallRow, readonly [callId: number]>;
  readonly #selectDue: Rows<CallRow, readonly [now: number, maxAttempts: number]>;
  readonly #selectAnyDue: Statement<unknown>;
  readonly #selectLeased: Rows<LeasedRow, readonly [json: string]>;
  readonly #update: Statement<unknown>;
  readonly #makeReady: Statement<unknown>;
  readonly #extend: Statement<unknown>;
  readonly #insertAcked: Statement<unknown>;
  readonly #insertDropped: Statement<unknown>;
  readonly #insertResult: Statement<unknown>;
  readonly #insertChunk: Statement<unknown>;
  readonly #insertFailure: Statement<unknown>;
  readonly #deleteCalls: Statement<unknown>;
  readonly #deleteBodies: Statement<unknown>;
  #leased = new Map<number, LeasedRow>();
  #finished: { readonly row: LeasedRow; readonly how: FinishedCall }[] = [];

  constructor(database: Database) {
    this.#select = prepareRows(database, CALL_COLUMNS, "FROM job_calls WHERE call_id = ?", ["history"]);
    this.#selectDue = prepareRows(
      database,
      CALL_COLUMNS,
      `FROM job_calls INDEXED BY job_calls_waiting
        WHERE ${isDue("?1", "?2")} LIMIT ${DUE_AT_ONCE}`,
      ["history"],
    );
    this.#selectAnyDue = database.prepare(
      `SELECT 1 FROM job_calls INDEXED BY job_calls_waiting
        WHERE state IN ('leased', 'delayed') AND visible_at <= ? LIMIT 1`,
    );
    this.#selectLeased = prepareRows<LeasedRow>(
      database,
      [
        ...(["call_id", "origin", "job_id", "service_id", "attempts"] as const),
        ...(["state", "visible_at", "lease_token", "ceiling", "order_key", "limited"] as const),
      ],
      "FROM job_calls WHERE call_id IN (SELECT value FROM json_each(?))",
    );
    // A JobCall that is not dead has no reason, so its group is NULL.
    this.#update = database.prepare(
      `UPDATE job_calls
          SET state = ?1, visible_at = ?2, lease_token = ?3, forgiven = ?4, subscriber = ?5, claimed_at = ?6, history = ?7,
              dead_at = ?8, dead_reason = ?9,
              dead_group = origin || ' ' || service_id || ' ' || job_id || ' ' || ?10
        WHERE call_id = ?11`,
    );
    this.#makeReady = database.prepare(
      `UPDATE job_calls
          SET state = 'ready', visible_at = NULL, lease_token = NULL, subscriber = NULL, claimed_at = NULL, history = ended.value
         FROM json_each(?) AS ended WHERE call_id = CAST(ended.key AS INTEGER)`,
    );
    this.#extend = database.prepare(
      "UPDATE job_calls SET visible_at = ?, progress_percent = ?, progress_text = ?, charge_so_far = ? WHERE call_id = ?",
    );
    this.#insertAcked = database.prepare(
      `INSERT INTO finished_calls (${FINISHED_COLUMNS})
       SELECT ${COPIED_COLUMNS}, finished.value ->> 1, finished.value ->> 2, NULL, finished.value ->> 3
         FROM json_each(?) AS finished
        CROSS JOIN job_calls ON call_id = finished.value ->> 0 CROSS JOIN job_bodies USING (call_id)`,
    );
    this.#insertDropped = database.prepare(
      `INSERT INTO finished_calls (${FINISHED_COLUMNS})
       SELECT ${COPIED_COLUMNS}, 'failed', dead_at, dead_reason, NULL
         FROM job_calls CROSS JOIN job_bodies USING (call_id) WHERE call_id = ?`,
    );
    this.#insertResult = database.prepare(
      `INSERT INTO results (call_id, state, attempt, enqueued_at, finished_at, body, content_type, charge, status, headers,
                            stored_bytes)
       SELECT call_id, ?2, attempts, enqueued_at, ?3, ?4, ?5, ?6, ?7, ?8, ?9 FROM job_calls WHERE call_id = ?1`,
    );
    this.#insertChunk = database.prepare(
      "INSERT OR REPLACE INTO result_chunks (call_id, attempt, place, bytes) VALUES (?, ?, ?, ?)",
    );
    this.#insertFailure = database.prepare(
      `INSERT INTO results (call_id, state, attempt, enqueued_at, finished_at, reason)
       SELECT call_id, 'failed', attempts, enqueued_at, dead_at, dead_reason
         FROM job_calls WHERE call_id = ? AND origin = 'x402'`,
    );
    this.#deleteCalls = database.prepare(
      "DELETE FROM job_calls WHERE call_id IN (SELECT value FROM json_each(?))",
    );
    this.#deleteBodies = database.prepare(
      "DELETE FROM job_bodies WHERE call_id IN (SELECT value FROM json_each(?))",
    );
  }

  find(callId: number): CallRow | undefined {
    return this.#select([callId])[0];
  }

  /** Finds at most {@link DUE_AT_ONCE} JobCalls whose lease or delay is over, without suspects. */
  findDue(now: number, maxAttempts: number): CallRow[] {
    // Most claims find no such JobCall, and reading rows as JSON has a cost even if there are none.
    return this.#selectAnyDue.get([now]) === undefined ? [] : this.#selectDue([now, maxAttempts]);
  }

  /** Reads JobCalls together that are acked in one batch. */
  readLeased(callIds: readonly number[]): LeasedRow[] {
    const rows = this.#selectLeased([JSON.stringify(callIds)]);
    this.#leased = new Map(rows.map((row) => [row.call_id, row]));
    this.#finished = [];
    return rows;
  }

  findLeased(callId: number): LeasedRow | undefined {
    return this.#leased.get(callId);
  }

  finish(row: LeasedRow, how: FinishedCall): void {
    this.#leased.delete(row.call_id);
    this.#finished.push({ row, how });
  }

  /** Writes the outcomes that {@link finish} has collected. */
  writeFinished(): void {
    const finished = this.#finished;
    if (finished.length === 0) return;
    const ends = finished.map(({ row, how: { at, state, result } }) =>
      result?.status === undefined ? [row.call_id, state, at] : [row.call_id, state, at, result.status],
    );
    this.#insertAcked.run([JSON.stringify(ends)]);
    for (const { row, how } of finished) {
      if (row.origin !== "x402") continue;
      const { at, state, result, charge } = how;
      const { contentType = null, status = null, headers, storedBytes = null } = result ?? {};
      const body = storedBytes === null ? (result?.body ?? null) : null;
      const answer = [status, headers === undefined ? null : JSON.stringify(headers), storedBytes];
      this.#insertResult.run([row.call_id, state, at, body, contentType, charge, ...answer]);
    }
    this.#delete(finished.map(({ row }) => row.call_id));
  }

  addChunk({ call_id, attempts }: CallRow, place: number, bytes: Uint8Array): void {
    this.#insertChunk.run([call_id, attempts, place, bytes]);
  }

  change(row: CallRow): void {
    const { state, visible_at, lease_token, forgiven, subscriber, claimed_at, dead_at, dead_reason } = row;
    const lease = [state, visible_at, lease_token, forgiven, subscriber, claimed_at];
    const group = dead_reason === null ? null : groupedReason(dead_reason);
    this.#update.run([...lease, textOf(row), dead_at, dead_reason, group, row.call_id]);
  }

  makeReady(rows: readonly CallRow[]): void {
    const histories = Object.fromEntries(rows.map(({ call_id, history }) => [call_id, history]));
    this.#makeReady.run([JSON.stringify(histories)]);
  }

  extend({ visible_at, progress_percent, progress_text, charge_so_far, call_id }: CallRow): void {
    this.#extend.run([visible_at, progress_percent, progress_text, charge_so_far, call_id]);
  }

  drop({ call_id }: CallRow): void {
    this.#insertDropped.run([call_id]);
    this.#insertFailure.run([call_id]);
    this.#delete([call_id]);
  }

  #delete(callIds: readonly number[]): void {
    const json = JSON.stringify(callIds);
    this.#deleteCalls.run([json]);
    this.#deleteBodies.run([json]);
  }
}

function textOf({ history }: CallRow): string | null {
  return history && JSON.stringify(history);
}

export function ackInBulk(
  rows: SqliteCallRows,
  steps: LeaseSteps,
  effects: SqliteEffects,
): BulkTable<"ack">["ack"] {
  return (operations) => {
    effects.readPayments(rows.readLeased(operations.map(({ input: [{ callId }] }) => callId)));
    const outcomes = operations.map(({ now, input }) => steps.ack(now, ...input));
    rows.writeFinished();
    effects.forgetPayments();
    return outcomes;
  };
}
