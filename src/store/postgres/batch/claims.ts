import type { ClaimedCall, ClaimRequest } from "../../contract/work-queue.ts";
import { type Sql, statement, storable } from "../sql.ts";
import { allSettled } from "./all-settled.ts";
import type { BatchContext } from "./batch-context.ts";
import type { Entry } from "./operations.ts";

/** What became of a JobCall that a claim has found. */
interface FoundRow {
  call_id: number;
  /** `buried`: a dead letter in place of another attempt. `more`: no JobCall, but there may be others to find. */
  fate: "leased" | "buried" | "more";
  lease_token: string;
  attempts: number;
  enqueued_at: number;
  encoded: Buffer;
}

/** How much further a claim looks when others have locked what it found. */
const WIDENING = 4;
/** Most leases and delays that are seen to have run out at once. */
const DUE_AT_ONCE = 5_000;

// What another batch has locked it is changing just now: it is not waited for.
const MAKE_DUE = statement<{ call_id: number; state: "ready" | "dead" }>(
  "make_due",
  `WITH due AS MATERIALIZED (
     SELECT call_id, attempts - forgiven >= $2::bigint AS is_used_up FROM jobgate.job_calls WHERE state IN ('leased', 'delayed') AND visible_at <= $1
      ORDER BY visible_at LIMIT ${DUE_AT_ONCE} FOR UPDATE SKIP LOCKED)
   UPDATE jobgate.job_calls AS job_call
      SET state = CASE WHEN is_used_up THEN 'dead' ELSE 'ready' END,
          dead_at = CASE WHEN is_used_up THEN $1 END, dead_reason = CASE WHEN is_used_up THEN 'max_attempts' END,
          visible_at = NULL, lease_token = NULL, subscriber = NULL
     FROM due WHERE job_call.call_id = due.call_id RETURNING job_call.call_id, job_call.state`,
);

/** $1 how many · $2 now · $3 the lease's end · $4 max attempts · $5 subscriber */
const TAKE = `
  leased AS (
    UPDATE jobgate.job_calls AS job_call
       SET state = 'leased', attempts = job_call.attempts + 1, visible_at = $3, subscriber = $5,
           progress_percent = NULL, progress_text = NULL,
           -- 122 random bits, URL-safe.
           lease_token = rtrim(translate(encode(uuid_send(gen_random_uuid()), 'base64'), '+/', '-_'), '=')
      FROM found WHERE job_call.call_id = found.call_id AND NOT found.is_used_up
    RETURNING job_call.call_id, job_call.lease_token, job_call.attempts, job_call.enqueued_at),
  buried AS (
    UPDATE jobgate.job_calls AS job_call
       SET state = 'dead', dead_at = $2, dead_reason = 'max_attempts',
           visible_at = NULL, lease_token = NULL, subscriber = NULL
      FROM found WHERE job_call.call_id = found.call_id AND found.is_used_up
    RETURNING job_call.call_id)
  SELECT call_id, 'leased' AS fate, lease_token, attempts, enqueued_at, encoded
    FROM leased JOIN jobgate.job_bodies USING (call_id)
   UNION ALL SELECT call_id, 'buried', NULL, NULL, NULL, NULL FROM buried`;

const CLAIM_ANY = statement<FoundRow>(
  "claim_any",
  `WITH found AS MATERIALIZED (
     SELECT call_id, attempts - forgiven >= $4::bigint AS is_used_up FROM jobgate.job_calls
      WHERE state = 'ready' ORDER BY call_id LIMIT $1 FOR UPDATE SKIP LOCKED),
   ${TAKE} ORDER BY call_id`,
);

// Job by job, so that no other jobs' rows are read, however many they are; and only what is taken is locked, since each
// lock is written down. Of the first $7, others may have locked so many that it must be looked further.
const CLAIM_OF_JOBS = statement<FoundRow>(
  "claim_of_jobs",
  `WITH candidates AS MATERIALIZED (
     SELECT ready.call_id FROM unnest($6::text[]) AS job (id) CROSS JOIN LATERAL (
       SELECT call_id FROM jobgate.job_calls
        WHERE state = 'ready' AND job_id = job.id ORDER BY call_id LIMIT $7) AS ready
      ORDER BY call_id LIMIT $7),
   found AS MATERIALIZED (
     SELECT call_id, attempts - forgiven >= $4::bigint AS is_used_up
       FROM candidates JOIN jobgate.job_calls USING (call_id)
      WHERE state = 'ready' ORDER BY call_id LIMIT $1 FOR UPDATE OF job_calls SKIP LOCKED),
   ${TAKE}
   UNION ALL SELECT NULL, 'more', NULL, NULL, NULL, NULL
              WHERE (SELECT count(*) FROM found) < $1 AND (SELECT count(*) FROM candidates) = $7
   ORDER BY call_id`,
);

/** {@link WorkQueue.claim}: after everything else in the batch, so that it gets what that made ready. */
export async function runClaims(entries: readonly Entry<"claim">[], context: BatchContext): Promise<void> {
  const [first] = entries;
  if (first === undefined) return;
  const { sql, now, madeReady, capacity } = context;
  const [due, claimed] = await allSettled([
    sql.run(MAKE_DUE, [now, first.input.maxAttempts]),
    allSettled(entries.map(({ input }) => claim(sql, input, context))),
  ]);
  for (const { call_id, state } of due) {
    if (state === "ready") madeReady.add(call_id);
    else capacity.adjust(-1);
  }
  for (const [index, { calls, buriedIds }] of claimed.entries()) {
    for (const callId of [...buriedIds, ...calls.map((call) => call.callId)]) madeReady.delete(callId);
    entries[index]?.decide(calls);
  }
}

interface Claimed {
  readonly calls: ClaimedCall[];
  readonly buriedIds: number[];
}

async function claim(sql: Sql, request: ClaimRequest, context: BatchContext): Promise<Claimed> {
  const { now, capacity, hasFailed } = context;
  const { leaseMs, maxAttempts, subscriber } = request;
  const leaseExpiresAt = now + leaseMs;
  const calls: ClaimedCall[] = [];
  const buriedIds: number[] = [];
  // A job named twice must not be claimed twice.
  const jobIds = [...new Set(request.jobIds.map(String))];
  let width = request.limit;
  if (request.limit === 0) return { calls, buriedIds };
  for (;;) {
    const values = [request.limit - calls.length, now, leaseExpiresAt, maxAttempts, storable(subscriber)];
    const rows = await (jobIds.length === 0
      ? sql.run(CLAIM_ANY, values)
      : sql.run(CLAIM_OF_JOBS, [...values, jobIds, width]));
    for (const row of rows) if (row.fate === "leased") calls.push(toClaimedCall(row, leaseExpiresAt));
    const buried = rows.filter(({ fate }) => fate === "buried").map(({ call_id }) => call_id);
    capacity.adjust(-buried.length);
    buriedIds.push(...buried);
    const isMore = rows.some(({ fate }) => fate === "more");
    if (isMore) width *= WIDENING;
    // Dead letters took the place of others that are due.
    const isToGoOn = (isMore || buried.length > 0) && calls.length < request.limit && !hasFailed();
    if (!isToGoOn) return { calls, buriedIds };
  }
}

function toClaimedCall(row: FoundRow, leaseExpiresAt: number): ClaimedCall {
  return {
    callId: row.call_id,
    leaseToken: row.lease_token,
    encoded: row.encoded,
    attempt: row.attempts,
    enqueuedAt: row.enqueued_at,
    leaseExpiresAt,
  };
}
