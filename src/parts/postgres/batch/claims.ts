import type { ClaimedCall, ClaimRequest } from "../../../store/contract/work-queue.ts";
import type { EndedCall } from "../../../store/machine/changes.ts";
import { BARE_REASONS, LEASE_EXPIRED, MAX_STEPS } from "../../../store/rules/call-steps.ts";
import { MAX_ATTEMPTS_REASON } from "../../../store/rules/leases.ts";
import { type Sql, statement, storable } from "../sql.ts";
import { allSettled, type BatchContext, type Entry } from "./batch.ts";

/** A JobCall that a claim has found. */
interface FoundRow {
  call_id: number;
  /** `buried`: a dead letter instead of another attempt. `more`: no JobCall, but there may be others to find. */
  fate: "leased" | "buried" | "more";
  lease_token: string;
  attempts: number;
  enqueued_at: number;
  ceiling: string | null;
  encoded: Buffer;
  buried: BuriedRow;
}

/** A JobCall that has used up its attempts. */
interface BuriedRow extends EndedCall {
  readonly dead_reason: string;
}

/** Columns of a {@link BuriedRow}. */
const BURIED = ["call_id", "origin", "job_id", "service_id", "attempts", "dead_reason"]
  .map((column) => `job_call.${column}`)
  .join(", ");

/** Factor by which a claim looks further when others have locked what it found. */
const WIDENING = 4;
/** Most leases and delays that one batch ends. */
const DUE_AT_ONCE = 5_000;

/** SQL of a history with the delivery that the row is leased for, and that its lease's end ended. */
const EXPIRED = `
  CASE WHEN jsonb_array_length(history) >= ${MAX_STEPS} THEN history - 0 ELSE COALESCE(history, '[]') END ||
  jsonb_build_array(jsonb_build_object('kind', 'delivery', 'attempt', attempts, 'subscriber', COALESCE(subscriber, ''),
                                       'from', claimed_at, 'to', visible_at, 'reason', '${LEASE_EXPIRED}'))`;

/** SQL of the reason of a dead letter that has used up its attempts: {@link usedUpReason}. */
const USED_UP = `
  '${MAX_ATTEMPTS_REASON}' ||
  CASE WHEN job_call.state <> 'leased' AND history -> -1 ->> 'reason' NOT IN (${BARE_REASONS.map((reason) => `'${reason}'`).join()})
       THEN ': ' || (history -> -1 ->> 'reason') ELSE '' END`;

// Skips rows that another batch has locked: it is changing them just now.
const EXPIRE_LEASES = statement<BuriedRow & { readonly state: "ready" | "dead" }>(
  "expire_leases",
  `WITH due AS MATERIALIZED (
     SELECT call_id, state = 'leased' AS is_lease, attempts - forgiven >= $2::bigint AS is_used_up
       FROM jobgate.job_calls WHERE state IN ('leased', 'delayed') AND visible_at <= $1
        AND (state = 'leased' OR subscriber IS NULL OR attempts - forgiven >= $2::bigint)
      ORDER BY visible_at LIMIT ${DUE_AT_ONCE} FOR UPDATE SKIP LOCKED)
   UPDATE jobgate.job_calls AS job_call
      SET state = CASE WHEN is_used_up THEN 'dead' ELSE 'ready' END,
          dead_at = CASE WHEN is_used_up THEN $1 END, dead_reason = CASE WHEN is_used_up THEN ${USED_UP} END,
          history = CASE WHEN is_lease THEN ${EXPIRED} ELSE history END,
          visible_at = NULL, lease_token = NULL, subscriber = NULL, claimed_at = NULL
     FROM due WHERE job_call.call_id = due.call_id RETURNING job_call.state, ${BURIED}`,
);

/** $1 how many · $2 now · $3 the lease's end · $4 max attempts · $5 subscriber */
const TAKE = `
  leased AS (
    UPDATE jobgate.job_calls AS job_call
       SET state = 'leased', attempts = job_call.attempts + 1, visible_at = $3, subscriber = $5,
           claimed_at = $2, progress_percent = NULL, progress_text = NULL,
           -- 122 random bits, URL-safe.
           lease_token = rtrim(translate(encode(uuid_send(gen_random_uuid()), 'base64'), '+/', '-_'), '=')
      FROM found WHERE job_call.call_id = found.call_id AND NOT found.is_used_up
    RETURNING job_call.call_id, job_call.lease_token, job_call.attempts, job_call.enqueued_at, job_call.ceiling),
  buried AS (
    UPDATE jobgate.job_calls AS job_call
       SET state = 'dead', dead_at = $2, dead_reason = ${USED_UP},
           visible_at = NULL, lease_token = NULL, subscriber = NULL
      FROM found WHERE job_call.call_id = found.call_id AND found.is_used_up
    RETURNING ${BURIED})
  SELECT call_id, 'leased' AS fate, lease_token, attempts, enqueued_at, ceiling, encoded, NULL AS buried
    FROM leased JOIN jobgate.job_bodies USING (call_id)
   UNION ALL SELECT call_id, 'buried', NULL, NULL, NULL, NULL, NULL, to_json(buried) FROM buried`;

const CLAIM_ANY = statement<FoundRow>(
  "claim_any",
  `WITH found AS MATERIALIZED (
     SELECT call_id, attempts - forgiven >= $4::bigint AS is_used_up FROM jobgate.job_calls
      WHERE state = 'ready' ORDER BY call_id LIMIT $1 FOR UPDATE SKIP LOCKED),
   ${TAKE} ORDER BY call_id`,
);

// Reads job by job, so that it reads no other jobs' rows, however many there are. Locks only what it takes, because each
// lock is a write. Others may have locked so many of the first $7 that the claim must look further.
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
   UNION ALL SELECT NULL, 'more', NULL, NULL, NULL, NULL, NULL, NULL
              WHERE (SELECT count(*) FROM found) < $1 AND (SELECT count(*) FROM candidates) = $7
   ORDER BY call_id`,
);

// A suspect stays `delayed` until it is claimed, with the subscriber whose stream ended while it was out.
const CLAIM_SUSPECTS = statement<FoundRow>(
  "claim_suspects",
  `WITH candidates AS MATERIALIZED (
     SELECT call_id FROM jobgate.job_calls
      WHERE state = 'delayed' AND visible_at <= $2 AND subscriber IS NOT NULL AND attempts - forgiven < $4::bigint
        AND (cardinality($6::text[]) = 0 OR job_id = ANY ($6))
      ORDER BY visible_at LIMIT $1::bigint + 1),
   found AS MATERIALIZED (
     SELECT call_id, false AS is_used_up FROM candidates JOIN jobgate.job_calls USING (call_id)
      WHERE state = 'delayed' ORDER BY visible_at LIMIT $1::bigint FOR UPDATE OF job_calls SKIP LOCKED),
   ${TAKE}
   UNION ALL SELECT NULL, 'more', NULL, NULL, NULL, NULL, NULL, NULL WHERE (SELECT count(*) FROM candidates) > $1::bigint`,
);

const NOTHING: Found = { calls: [], buried: [], suspectsLeft: false };

/**
 * Runs the claims of a batch, after everything else in it, so that they get what that made ready. Leases and delays that
 * ran out end once for the whole batch: the first entry reports the dead letters among them.
 */
export async function runClaims(
  entries: readonly Entry<"claim" | "expireLeases">[],
  context: BatchContext,
): Promise<void> {
  const [first] = entries;
  if (first === undefined) return;
  const { sql, now, madeReady, capacity, effects } = context;
  const maxAttempts = first.name === "claim" ? first.input[0].maxAttempts : first.input[0];
  const [due, claims] = await allSettled([
    sql.run(EXPIRE_LEASES, [now, maxAttempts]),
    allSettled(
      entries.map((entry) => (entry.name === "claim" ? claim(sql, entry.input[0], context) : NOTHING)),
    ),
  ]);
  const expired: BuriedRow[] = [];
  for (const { state, ...call } of due) {
    if (state === "ready") madeReady.add(call.call_id);
    else expired.push(call);
  }
  capacity.adjust(-expired.length);
  const allBuried = [...expired, ...claims.flatMap(({ buried }) => buried)];
  if (allBuried.length > 0) {
    const callIds = allBuried.map(({ call_id }) => call_id);
    effects.willNeedPayments(callIds);
    effects.willEnd(callIds);
    await effects.load(sql);
  }
  const report = ({ dead_reason, ...call }: BuriedRow) => effects.buried(call, dead_reason, now);
  for (const [index, { calls, buried, suspectsLeft }] of claims.entries()) {
    for (const { call_id } of buried) madeReady.delete(call_id);
    for (const { callId } of calls) madeReady.delete(callId);
    const entry = entries[index];
    const reported = (index === 0 ? [...expired, ...buried] : buried).map(report);
    if (entry?.name === "claim") entry.decide({ calls, buried: reported, suspectsLeft });
    else entry?.decide(reported);
  }
  if (allBuried.length > 0) await effects.write(context);
}

/** Result of one claim. */
interface Found {
  readonly calls: ClaimedCall[];
  readonly buried: BuriedRow[];
  readonly suspectsLeft: boolean;
}

async function claim(sql: Sql, request: ClaimRequest, context: BatchContext): Promise<Found> {
  const { now, capacity, hasFailed } = context;
  const { limit, leaseMs, maxAttempts, subscriber } = request;
  const leaseExpiresAt = now + leaseMs;
  const calls: ClaimedCall[] = [];
  const buried: BuriedRow[] = [];
  // A job named twice must not be claimed twice.
  const jobIds = [...new Set(request.jobIds.map(String))];
  let suspectsLeft = false;
  if (request.suspects !== undefined) {
    const wanted = Math.min(request.suspects, limit);
    const values = [wanted, now, leaseExpiresAt, maxAttempts, storable(subscriber), jobIds];
    const rows = await sql.run(CLAIM_SUSPECTS, values);
    suspectsLeft = rows.some(({ fate }) => fate === "more");
    for (const row of rows) if (row.fate === "leased") calls.push(claimedCall(row, leaseExpiresAt, true));
    if (calls.length > 0) return { calls, buried, suspectsLeft };
  }
  let width = limit;
  let goesOn = limit > 0;
  while (goesOn) {
    const values = [limit - calls.length, now, leaseExpiresAt, maxAttempts, storable(subscriber)];
    const rows = await (jobIds.length === 0
      ? sql.run(CLAIM_ANY, values)
      : sql.run(CLAIM_OF_JOBS, [...values, jobIds, width]));
    const buriedBefore = buried.length;
    for (const row of rows) {
      if (row.fate === "buried") buried.push(row.buried);
      if (row.fate === "leased") calls.push(claimedCall(row, leaseExpiresAt, false));
    }
    const newlyBuried = buried.length - buriedBefore;
    capacity.adjust(-newlyBuried);
    const hasMore = rows.some(({ fate }) => fate === "more");
    if (hasMore) width *= WIDENING;
    // Dead letters took the place of others that are due.
    goesOn = (hasMore || newlyBuried > 0) && calls.length < limit && !hasFailed();
  }
  return { calls, buried, suspectsLeft };
}

function claimedCall(row: FoundRow, leaseExpiresAt: number, suspect: boolean): ClaimedCall {
  const {
    call_id: callId,
    lease_token: leaseToken,
    attempts: attempt,
    enqueued_at: enqueuedAt,
    ceiling,
    encoded,
  } = row;
  const byUse = ceiling !== null;
  return { callId, leaseToken, encoded, attempt, enqueuedAt, leaseExpiresAt, suspect, byUse };
}
