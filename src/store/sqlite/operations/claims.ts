import { randomFillSync } from "node:crypto";
import type { BuriedCall, ClaimedCall } from "../../contract/work-queue.ts";
import { type AttemptColumns, isUsedUp, MAX_ATTEMPTS_REASON } from "../../rules/leases.ts";
import type { Database, Statement } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";
import type { JobCalls } from "./job-calls.ts";

export function claimOperations(
  database: Database,
  jobCalls: JobCalls,
): OperationTable<"claim" | "expireLeases"> {
  const selectAnyDue = database.prepare(
    `SELECT 1 FROM job_calls INDEXED BY job_calls_waiting
      WHERE state IN ('leased', 'delayed') AND visible_at <= ? LIMIT 1`,
  );
  const selectUsedUp = database.prepare<{ call_id: number }>(
    `SELECT call_id FROM job_calls INDEXED BY job_calls_waiting
      WHERE state IN ('leased', 'delayed') AND visible_at <= ? AND attempts - forgiven >= ?`,
  );
  const readyDue = database.prepare(
    `UPDATE job_calls INDEXED BY job_calls_waiting
        SET state = 'ready', visible_at = NULL, lease_token = NULL, subscriber = NULL
      WHERE state IN ('leased', 'delayed') AND visible_at <= ? AND (state = 'leased' OR subscriber IS NULL)`,
  );
  // A suspect stays `delayed` until it is claimed, with the subscriber whose stream ended while it was out.
  const selectSuspects = database.prepare<ReadyRow>(
    `SELECT call_id, attempts, forgiven, enqueued_at FROM job_calls INDEXED BY job_calls_waiting
      WHERE state IN ('leased', 'delayed') AND visible_at <= ?1 AND state = 'delayed' AND subscriber IS NOT NULL
        AND (?2 = '[]' OR job_id IN (SELECT value FROM json_each(?2)))
      ORDER BY visible_at LIMIT ?3`,
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
  const ready = new ReadyCalls(database);
  const tokens = new LeaseTokens();

  function expireLeases(now: number, maxAttempts: number): BuriedCall[] {
    if (selectAnyDue.get([now]) === undefined) return [];
    const buried = selectUsedUp
      .all([now, maxAttempts])
      .map(({ call_id }) => jobCalls.bury(call_id, MAX_ATTEMPTS_REASON, now));
    readyDue.run([now]);
    return buried;
  }

  return {
    expireLeases,
    claim(now, { limit, jobIds, leaseMs, maxAttempts, subscriber, suspects }) {
      const buried = expireLeases(now, maxAttempts);
      const calls: ClaimedCall[] = [];
      const leaseExpiresAt = now + leaseMs;

      function take(row: ReadyRow, suspect: boolean): void {
        const { call_id: callId, enqueued_at: enqueuedAt } = row;
        const body = selectBody.get([callId]);
        if (body === undefined) throw new Error(`JobCall ${callId} has no body`);
        const leaseToken = tokens.next();
        const attempt = row.attempts + 1;
        lease.run([attempt, leaseExpiresAt, leaseToken, subscriber, callId]);
        calls.push({
          callId,
          leaseToken,
          encoded: body.encoded,
          attempt,
          enqueuedAt,
          leaseExpiresAt,
          suspect,
        });
      }

      let suspectsLeft = false;
      if (suspects !== undefined) {
        const wanted = Math.min(suspects, limit);
        const found = selectSuspects.all([now, JSON.stringify(jobIds.map(String)), wanted + 1]);
        suspectsLeft = found.length > wanted;
        for (const row of found.slice(0, wanted)) take(row, true);
        if (calls.length > 0) return { calls, buried, suspectsLeft };
      }
      while (calls.length < limit) {
        const rows = ready.next(jobIds, limit - calls.length);
        if (rows.length === 0) break;
        for (const row of rows) {
          if (isUsedUp(row, maxAttempts)) buried.push(jobCalls.bury(row.call_id, MAX_ATTEMPTS_REASON, now));
          else take(row, false);
        }
      }
      return { calls, buried, suspectsLeft };
    },
  };
}

interface ReadyRow extends AttemptColumns {
  readonly call_id: number;
  readonly enqueued_at: number;
}

/** Ready JobCalls in order of their call id. Reads no other rows, however long the queue is. */
class ReadyCalls {
  readonly #ofAnyJob: Statement<ReadyRow>;
  readonly #ofJob: Statement<ReadyRow>;

  constructor(database: Database) {
    const columns = "call_id, attempts, forgiven, enqueued_at";
    this.#ofAnyJob = database.prepare(
      `SELECT ${columns} FROM job_calls INDEXED BY job_calls_ready
        WHERE state = 'ready' ORDER BY call_id LIMIT ?`,
    );
    this.#ofJob = database.prepare(
      `SELECT ${columns} FROM job_calls INDEXED BY job_calls_ready_by_job
        WHERE state = 'ready' AND job_id = ? ORDER BY call_id LIMIT ?`,
    );
  }

  /** @param jobIds empty means all jobs */
  next(jobIds: readonly bigint[], limit: number): ReadyRow[] {
    if (jobIds.length === 0) return this.#ofAnyJob.all([limit]);
    // A job named twice must not be claimed twice.
    const distinct = [...new Set(jobIds.map(String))];
    return distinct
      .flatMap((jobId) => this.#ofJob.all([jobId, limit]))
      .sort((a, b) => a.call_id - b.call_id)
      .slice(0, limit);
  }
}

const TOKEN_BYTES = 16;
const TOKENS_AT_ONCE = 256;

/** Lease tokens: 128 random bits, URL-safe. Draws randomness for many at once, because each draw has a fixed cost. */
class LeaseTokens {
  readonly #pool = Buffer.alloc(TOKEN_BYTES * TOKENS_AT_ONCE);
  #used = this.#pool.length;

  next(): string {
    if (this.#used === this.#pool.length) {
      randomFillSync(this.#pool);
      this.#used = 0;
    }
    this.#used += TOKEN_BYTES;
    return this.#pool.toString("base64url", this.#used - TOKEN_BYTES, this.#used);
  }
}
