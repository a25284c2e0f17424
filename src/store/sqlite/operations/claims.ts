import { randomFillSync } from "node:crypto";
import type { ClaimedCall, ClaimRequest, DeadLetteredCall } from "../../contract/work-queue.ts";
import { ClaimLimits, limitsOf } from "../../machine/claim-limits.ts";
import type { LeaseSteps } from "../../machine/leases.ts";
import type { ReservedJobRow } from "../../module.ts";
import { RESERVED_JOBS } from "../../modules/modules.ts";
import { type AttemptColumns, isDueSuspect, isUsedUp } from "../../rules/leases.ts";
import { type Database, prepareRows } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";
import { DUE_AT_ONCE, type SqliteCallRows } from "./call-rows.ts";
import type { SqliteEffects } from "./effects.ts";
import type { NewCalls } from "./new-calls.ts";

export function claimOperations(
  database: Database,
  callRows: SqliteCallRows,
  steps: LeaseSteps,
  effects: SqliteEffects,
  newCalls: NewCalls,
): OperationTable<"claim" | "expireLeases"> {
  const selectSuspects = database.prepare<ReadyRow>(
    `SELECT ${READY_COLUMNS.join()} FROM job_calls INDEXED BY job_calls_waiting
      WHERE ${isDueSuspect("?1")}
        AND (?2 = '[]' OR job_id IN (SELECT value FROM json_each(?2)))
        AND (?4 = '[]' OR job_id NOT IN (SELECT value FROM json_each(?4)))
      ORDER BY visible_at LIMIT ?3`,
  );
  const lease = database.prepare(
    `UPDATE job_calls
        SET state = 'leased', attempts = attempts + 1, visible_at = ?1, lease_token = leased.value ->> 1, subscriber = ?2,
            claimed_at = ?4, progress_percent = NULL, progress_text = NULL
       FROM json_each(?3) AS leased WHERE call_id = leased.value ->> 0`,
  );
  const selectBodies = database.prepare<{ call_id: number; encoded: Uint8Array | ArrayBuffer }>(
    "SELECT call_id, encoded FROM job_bodies WHERE call_id IN (SELECT value FROM json_each(?))",
  );
  const selectOut = database.prepare<{ readonly out: number }>(
    `SELECT count(*) AS out FROM job_calls INDEXED BY job_calls_limited
      WHERE state = 'leased' AND limited = 1 AND job_id = ?`,
  );
  const markLimited = database.prepare<{ readonly job_id: string }>(
    `UPDATE job_calls SET limited = 1 WHERE call_id IN (SELECT value FROM json_each(?1))
        AND job_id IN (SELECT value FROM json_each(?2)) RETURNING job_id`,
  );
  const ready = new ReadyCalls(database);
  const tokens = new LeaseTokens();

  function expireLeases(now: number, maxAttempts: number): DeadLetteredCall[] {
    const deadLettered: DeadLetteredCall[] = [];
    for (;;) {
      const due = callRows.findDue(now, maxAttempts);
      deadLettered.push(...endDue(due, now, maxAttempts));
      if (due.length < DUE_AT_ONCE) return deadLettered;
    }
  }

  function endDue(...input: Parameters<LeaseSteps["endDue"]>): DeadLetteredCall[] {
    const [due] = input;
    const orderKeys = due.flatMap(({ order_key }) => order_key ?? []);
    effects.rows.loadKeys(orderKeys);
    const dead = effects.claiming(() => steps.endDue(...input).map((row) => effects.deadLettered(row)));
    if (orderKeys.length > 0) effects.forgetPayments();
    return dead;
  }

  return {
    expireLeases,
    claim(now, request) {
      const { limit, exceptJobIds = [], leaseMs, maxAttempts, subscriber, suspects } = request;
      const reserved = reservedFrom(request);
      const jobIds = request.jobIds.filter((jobId) => !reserved.includes(jobId));
      const isOfAll = request.jobIds.length === 0;
      const except = isOfAll ? [...exceptJobIds, ...reserved] : [];
      effects.writeReady();
      const deadLettered = expireLeases(now, maxAttempts);
      const limits = limitsFor(request, now);
      if (!isOfAll && jobIds.length === 0)
        return { calls: [], deadLettered, suspectsLeft: false, nextInMs: limits?.finish() };
      const excepted = JSON.stringify([...except.map(String), ...(limits?.full ?? [])]);
      const found: { readonly row: ReadyRow; readonly suspect: boolean }[] = [];
      const leaseAll = () => {
        const calls = leased(found, { now, leaseMs, subscriber, deadLettered });
        return { calls, nextInMs: limits && finish(limits, calls) };
      };

      let suspectsLeft = false;
      if (suspects !== undefined) {
        const wanted = Math.min(suspects, limit, limits === undefined ? limit : 1);
        const rows = selectSuspects.all([now, JSON.stringify(jobIds.map(String)), wanted + 1, excepted]);
        suspectsLeft = rows.length > wanted;
        for (const row of rows.slice(0, wanted)) found.push({ row, suspect: true });
        if (found.length > 0) return { ...leaseAll(), deadLettered, suspectsLeft };
      }
      // A dead letter does not use up the claim's limit, so the search continues with further JobCalls.
      let after = 0;
      // A limited job may be read up to a lower call ID than other jobs.
      const afterOf = new Map<string, number>();
      while (found.length < limit) {
        const left = limits && leftAfter(limits, found);
        const rows = ready.next(jobIds, { after, afterOf, limit: limit - found.length, except, left });
        if (rows.length === 0) break;
        for (const row of rows) {
          after = row.call_id;
          if (row.job_id !== undefined) afterOf.set(row.job_id, after);
          const usedUp = isUsedUp(row, maxAttempts) ? callRows.find(after) : undefined;
          if (usedUp === undefined) found.push({ row, suspect: false });
          else deadLettered.push(...endDue([usedUp], now, maxAttempts));
        }
      }
      if (limits !== undefined) return { ...leaseAll(), deadLettered, suspectsLeft };
      const lease = { subscriber, claimedAt: now, expiresAt: now + leaseMs, nextToken: () => tokens.next() };
      const fresh = newCalls.lease({ jobIds, except }, limit - found.length, lease).map(
        ({ callId, leaseToken, call: { encoded }, enqueuedAt, ceiling }): ClaimedCall => ({
          callId,
          leaseToken,
          encoded,
          enqueuedAt,
          attempt: 1,
          forgiven: 0,
          leaseExpiresAt: lease.expiresAt,
          suspect: false,
          deferred: ceiling !== null,
        }),
      );
      return { calls: [...leaseAll().calls, ...fresh], deadLettered, suspectsLeft };
    },
  };

  /** Returns the jobs whose JobCalls a claim must leave to claims that reserve jobs. */
  function reservedFrom({ reserves = false }: ClaimRequest): bigint[] {
    if (reserves || RESERVED_JOBS === undefined) return [];
    return effects.rows.all<ReservedJobRow>(RESERVED_JOBS).map(({ job_id }) => BigInt(job_id));
  }

  /** Returns the limits of a claim; undefined if none of its jobs has a limit. */
  function limitsFor(request: ClaimRequest, now: number): ClaimLimits | undefined {
    const limits = limitsOf(request);
    if (limits.length === 0) return undefined;
    // After this write, the claim finds the new JobCalls of the batch together with other JobCalls of their jobs.
    newCalls.write();
    const out = new Map(
      limits.map(({ jobId }) => [String(jobId), selectOut.get([String(jobId)])?.out ?? 0] as const),
    );
    return new ClaimLimits(limits, { out, rows: effects.rows, now });
  }

  function finish(limits: ClaimLimits, calls: readonly ClaimedCall[]): number | undefined {
    const callIds = JSON.stringify(calls.map(({ callId }) => callId));
    const marked = markLimited.all([callIds, JSON.stringify([...limits.left.keys()])]);
    for (const { job_id } of marked) limits.took(job_id);
    return limits.finish();
  }

  function leased(
    found: readonly { readonly row: ReadyRow; readonly suspect: boolean }[],
    claim: {
      readonly now: number;
      readonly leaseMs: number;
      readonly subscriber: string;
      /** Receives JobCalls whose body is missing, so that they do not stop other JobCalls. */
      readonly deadLettered: DeadLetteredCall[];
    },
  ): ClaimedCall[] {
    if (found.length === 0) return [];
    const leaseExpiresAt = claim.now + claim.leaseMs;
    const callIds = found.map(({ row }) => row.call_id);
    const bodies = new Map(
      selectBodies.all([JSON.stringify(callIds)]).map(({ call_id, encoded }) => [call_id, toBytes(encoded)]),
    );
    const calls = found.flatMap(({ row, suspect }) => {
      const { call_id: callId, attempts, forgiven, enqueued_at: enqueuedAt, ceiling } = row;
      const encoded = bodies.get(callId);
      if (encoded === undefined) {
        const damaged = callRows.find(callId);
        if (damaged !== undefined)
          claim.deadLettered.push(
            effects.claiming(() => steps.deadLetter(damaged, NO_BODY_REASON, claim.now)),
          );
        return [];
      }
      return {
        callId,
        leaseToken: tokens.next(),
        encoded,
        attempt: attempts + 1,
        forgiven,
        enqueuedAt,
        leaseExpiresAt,
        suspect,
        deferred: ceiling !== null,
      };
    });
    const leases = JSON.stringify(calls.map(({ callId, leaseToken }) => [callId, leaseToken]));
    lease.run([leaseExpiresAt, claim.subscriber, leases, claim.now]);
    return calls;
  }
}

/** Returns, by limited job, how many JobCalls can be given out in addition to the found JobCalls. */
function leftAfter(
  { left }: ClaimLimits,
  found: readonly { readonly row: ReadyRow }[],
): ReadonlyMap<string, number> {
  const after = new Map(left);
  for (const { job_id: jobId = "" } of found.map(({ row }) => row)) {
    const before = after.get(jobId);
    if (before !== undefined) after.set(jobId, before - 1);
  }
  return after;
}

/** Reason of a dead letter whose body is gone. */
const NO_BODY_REASON = "its body is missing: the store is damaged";

/** libsql returns the BLOBs of several rows as bare ArrayBuffers. */
function toBytes(blob: Uint8Array | ArrayBuffer): Uint8Array {
  return blob instanceof ArrayBuffer ? new Uint8Array(blob) : blob;
}

interface ReadyRow extends AttemptColumns {
  readonly call_id: number;
  readonly enqueued_at: number;
  readonly ceiling: string | null;
  /** Job of a JobCall, if the JobCall was found by its job. */
  job_id?: string;
}

const READY_COLUMNS = ["call_id", "attempts", "forgiven", "enqueued_at", "ceiling"] as const;

/** Ready JobCalls in the order of their call IDs. Reads only these rows, however long the queue is. */
class ReadyCalls {
  readonly #ofAnyJob;
  readonly #ofJob;
  readonly #nextJob;

  constructor(database: Database) {
    this.#ofAnyJob = prepareRows<ReadyRow>(
      database,
      READY_COLUMNS,
      `FROM job_calls INDEXED BY job_calls_ready
        WHERE state = 'ready' AND call_id > ? ORDER BY call_id LIMIT ?`,
    );
    this.#nextJob = database.prepare<{ readonly id: string | null }>(
      `SELECT min(job_id) AS id FROM job_calls INDEXED BY job_calls_ready_by_job
        WHERE state = 'ready' AND job_id > ?`,
    );
    this.#ofJob = prepareRows<ReadyRow>(
      database,
      READY_COLUMNS,
      `FROM job_calls INDEXED BY job_calls_ready_by_job
        WHERE state = 'ready' AND job_id = ? AND call_id > ? ORDER BY call_id LIMIT ?`,
    );
  }

  /**
   * Finds ready JobCalls in the order of their IDs.
   * @param jobIds empty for all jobs that `except` does not list
   * @param options `left` is the largest number of JobCalls for each job that has a limit. Without `left`, only JobCalls with an
   * ID above `after` are found; with it, JobCalls with an ID above the job's entry in `afterOf`
   */
  next(
    jobIds: readonly bigint[],
    {
      after,
      afterOf,
      limit,
      except,
      left,
    }: {
      readonly after: number;
      readonly afterOf: ReadonlyMap<string, number>;
      readonly limit: number;
      readonly except: readonly bigint[];
      readonly left?: ReadonlyMap<string, number> | undefined;
    },
  ): ReadyRow[] {
    if (jobIds.length === 0 && except.length === 0 && left === undefined)
      return this.#ofAnyJob([after, limit]);
    // A job that is named twice must not be claimed twice.
    const distinct = jobIds.length === 0 ? this.#jobsBut(except) : [...new Set(jobIds.map(String))];
    return distinct
      .flatMap((jobId) => {
        const most = Math.min(limit, left?.get(jobId) ?? limit);
        if (most === 0) return [];
        const rows = this.#ofJob([jobId, left === undefined ? after : (afterOf.get(jobId) ?? 0), most]);
        if (left !== undefined) for (const row of rows) row.job_id = jobId;
        return rows;
      })
      .sort((a, b) => a.call_id - b.call_id)
      .slice(0, limit);
  }

  /**
   * Finds the jobs with ready JobCalls. The query steps from job to job in the index, so that it does not read the queue of
   * an excluded job.
   */
  #jobsBut(except: readonly bigint[]): string[] {
    const excepted = new Set(except.map(String));
    const found: string[] = [];
    for (let last = ""; ; ) {
      const id = this.#nextJob.get([last])?.id ?? undefined;
      if (id === undefined) return found;
      if (!excepted.has(id)) found.push(id);
      last = id;
    }
  }
}

const TOKEN_BYTES = 16;
const TOKENS_AT_ONCE = 256;

/** Lease tokens: 128 random bits, URL-safe. Draws randomness for many tokens at once, because each draw has a fixed cost. */
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
