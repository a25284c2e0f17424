import type { ClaimedCall, ClaimRequest } from "../../../store/contract/work-queue.ts";
import type { CallRow, DeadRow } from "../../../store/machine/call-row.ts";
import { ClaimLimits, limitsOf } from "../../../store/machine/claim-limits.ts";
import { LeaseSteps } from "../../../store/machine/leases.ts";
import { LIMITING, RESERVED_JOBS } from "../../../store/modules/modules.ts";
import { isDueSuspect, usedUp } from "../../../store/rules/leases.ts";
import { numberArray, type Sql, statement, storable } from "../sql.ts";
import { allSettled, type BatchContext, type Entry } from "./batch.ts";
import type { PostgresCallRows } from "./call-rows.ts";
import type { PostgresEffects } from "./effects.ts";

/** A JobCall that a claim has found. */
interface FoundRow {
  call_id: number;
  /** `used_up`: has no attempt left, and was not leased. `more`: no JobCall was found, but a further search may find some. */
  fate: "leased" | "used_up" | "more";
  lease_token: string;
  attempts: number;
  forgiven: number;
  enqueued_at: number;
  ceiling: string | null;
  encoded: Buffer;
  used_up: CallRow;
}

type ClaimEntry = Entry<"claim" | "expireLeases">;

/** Factor by which a claim extends its search if other batches have locked the rows that it found. */
const WIDENING = 4;
// Columns that the locking statement itself reads, because another query would read the row's earlier version.
const ROW_IF_USED_UP = `CASE WHEN ${usedUp("$4::bigint")} THEN to_json(job_calls) END AS used_up`;

/** $1 how many · $2 now · $3 the lease's end · $4 max attempts · $5 subscriber */
const TAKE = `
  leased AS (
    UPDATE jobgate.job_calls AS job_call
       SET state = 'leased', attempts = job_call.attempts + 1, visible_at = $3, subscriber = $5,
           claimed_at = $2, progress_percent = NULL, progress_text = NULL,
           -- 122 random bits, URL-safe.
           lease_token = rtrim(translate(encode(uuid_send(gen_random_uuid()), 'base64'), '+/', '-_'), '=')
      FROM found WHERE job_call.call_id = found.call_id AND found.used_up IS NULL
    RETURNING job_call.call_id, job_call.lease_token, job_call.attempts, job_call.forgiven, job_call.enqueued_at,
              job_call.ceiling)
  SELECT call_id, 'leased' AS fate, lease_token, attempts, forgiven, enqueued_at, ceiling, encoded, NULL AS used_up
    FROM leased JOIN jobgate.job_bodies USING (call_id)
   UNION ALL SELECT call_id, 'used_up', NULL, NULL, NULL, NULL, NULL, NULL, used_up
              FROM found WHERE used_up IS NOT NULL`;

/**
 * SQL condition that a claim can return JobCalls of a job. The claim itself reads which jobs are reserved, because another
 * process may have reserved a job and accepted a JobCall of it since this process last looked.
 * @param reserves SQL that is true if the claim reserves jobs
 */
const isOpenTo = (reserves: string, jobId: string) =>
  RESERVED_JOBS === undefined
    ? `${reserves} IS NOT NULL`
    : `(${reserves} OR NOT EXISTS (
          SELECT FROM jobgate.${RESERVED_JOBS.name} AS reserved WHERE reserved.job_id = ${jobId}))`;
const IS_NONE_RESERVED =
  RESERVED_JOBS === undefined ? "TRUE" : `NOT EXISTS (SELECT FROM jobgate.${RESERVED_JOBS.name})`;

// While jobs are reserved, the claim must go job by job, so that it does not read the queue of a reserved job.
const CLAIM_ANY = statement<FoundRow>(
  "claim_any",
  `WITH found AS MATERIALIZED (
     SELECT call_id, ${ROW_IF_USED_UP} FROM jobgate.job_calls
      WHERE state = 'ready' AND ${IS_NONE_RESERVED} ORDER BY call_id LIMIT $1 FOR UPDATE SKIP LOCKED),
   ${TAKE}
   UNION ALL SELECT NULL, 'more', NULL, NULL, NULL, NULL, NULL, NULL, NULL WHERE NOT (${IS_NONE_RESERVED})
   ORDER BY call_id`,
);

// Reads job by job, so that it reads no other jobs' rows, however many there are. Locks only rows that it takes, because
// each lock is a write. Other batches may have locked so many of the first $7 rows that the claim must search further.
const claimOfJobs = (
  name: string,
  jobs: { readonly cte: string; readonly where: string; readonly most?: string },
) =>
  statement<FoundRow>(
    name,
    `WITH RECURSIVE job (id) AS (${jobs.cte}),
   candidates AS MATERIALIZED (
     SELECT ready.call_id FROM (SELECT id FROM job WHERE ${jobs.where}) AS job CROSS JOIN LATERAL (
       SELECT call_id FROM jobgate.job_calls
        WHERE state = 'ready' AND job_id = job.id ORDER BY call_id LIMIT ${jobs.most ?? "$7"}) AS ready
      ORDER BY call_id LIMIT $7),
   found AS MATERIALIZED (
     SELECT call_id, ${ROW_IF_USED_UP}
       FROM candidates JOIN jobgate.job_calls USING (call_id)
      WHERE state = 'ready' ORDER BY call_id LIMIT $1 FOR UPDATE OF job_calls SKIP LOCKED),
   ${TAKE}
   UNION ALL SELECT NULL, 'more', NULL, NULL, NULL, NULL, NULL, NULL, NULL
              WHERE (SELECT count(*) FROM found) < $1 AND (SELECT count(*) FROM candidates) = $7
   ORDER BY call_id`,
  );

// $8 whether the claim reserves jobs
const CLAIM_OF_JOBS = claimOfJobs("claim_of_jobs", {
  cte: "SELECT unnest($6::text[])",
  where: isOpenTo("$8::boolean", "id"),
});

// Steps from job to job in the index, so that the queue of an excluded job is not read.
const READY_JOBS = `SELECT (SELECT min(job_id) FROM jobgate.job_calls WHERE state = 'ready')
         UNION ALL
        SELECT (SELECT min(job_id) FROM jobgate.job_calls WHERE state = 'ready' AND job_id > job.id)
          FROM job WHERE id IS NOT NULL`;
const CLAIM_ALL_BUT = claimOfJobs("claim_all_but", {
  cte: READY_JOBS,
  where: `id IS NOT NULL AND NOT id = ANY ($6::text[]) AND ${isOpenTo("$8::boolean", "id")}`,
});

// $8 whether $6 lists the jobs to claim, instead of the jobs to leave out · $9, $10 limited jobs, and what is left of each ·
// $11 whether the claim reserves jobs
const CLAIM_LIMITED = claimOfJobs("claim_limited", {
  cte: READY_JOBS,
  where: `id IS NOT NULL AND (id = ANY ($6::text[])) = $8::boolean AND ${isOpenTo("$11::boolean", "id")}`,
  most: `LEAST($7, (SELECT most FROM unnest($9::text[], $10::bigint[]) AS limited (job_id, most)
                              WHERE limited.job_id = job.id))`,
});
// Other claims of these jobs wait for the rows of their limits, so no two claims count at the same time.
const COUNT_OUT = statement<{ job_id: string; out: number }>(
  "count_out",
  `SELECT job_id, count(*) AS out FROM jobgate.job_calls
    WHERE state = 'leased' AND limited = 1 AND job_id = ANY ($1::text[]) GROUP BY job_id`,
);
const MARK_LIMITED = statement<{ job_id: string }>(
  "mark_limited",
  `UPDATE jobgate.job_calls SET limited = 1
    WHERE call_id = ANY ($1::bigint[]) AND job_id = ANY ($2::text[]) RETURNING job_id`,
);

const CLAIM_SUSPECTS = statement<FoundRow>(
  "claim_suspects",
  `WITH candidates AS MATERIALIZED (
     SELECT call_id FROM jobgate.job_calls
      WHERE ${isDueSuspect("$2")} AND NOT ${usedUp("$4::bigint")}
        AND (cardinality($6::text[]) = 0 OR job_id = ANY ($6)) AND NOT job_id = ANY ($7::text[])
        AND ${isOpenTo("$8::boolean", "job_calls.job_id")}
      ORDER BY visible_at, call_id LIMIT $1::bigint + 1),
   found AS MATERIALIZED (
     SELECT call_id, NULL::json AS used_up FROM candidates JOIN jobgate.job_calls USING (call_id)
      WHERE state = 'delayed' ORDER BY visible_at, call_id LIMIT $1::bigint FOR UPDATE OF job_calls SKIP LOCKED),
   ${TAKE}
   UNION ALL SELECT NULL, 'more', NULL, NULL, NULL, NULL, NULL, NULL, NULL
              WHERE (SELECT count(*) FROM candidates) > $1::bigint`,
);

const NOTHING: Found = { calls: [], dead: [], suspectsLeft: false };

/**
 * Claims of a batch, which run after its other operations, so that the claims get the JobCalls that those operations
 * made ready. Leases and delays that ran out end once for the whole batch: the first entry reports the dead letters
 * among them.
 */
export class Claims {
  readonly #entries: readonly ClaimEntry[];
  readonly #rows: PostgresCallRows;
  readonly #now: number | null;

  /** @param now replaces the database's clock */
  constructor(entries: readonly ClaimEntry[], rows: PostgresCallRows, now: number | null) {
    this.#entries = entries;
    this.#rows = rows;
    this.#now = now;
  }

  async load(sql: Sql, { rows, keys }: PostgresEffects): Promise<void> {
    const [first] = this.#entries;
    if (first !== undefined) keys.awaitEnds();
    for (const { jobId } of this.#entries.flatMap(limitsOfEntry))
      if (LIMITING !== undefined) rows.willNeed(LIMITING.row(String(jobId)));
    if (first === undefined) return;
    await this.#rows.lockDue(sql, this.#now, maxAttemptsOf(first));
    keys.willTakeBack(this.#rows.locked);
  }

  async run(context: BatchContext): Promise<void> {
    const [first] = this.#entries;
    if (first === undefined) return;
    const { sql, now, madeReady, capacity, effects } = context;
    const steps = new LeaseSteps(this.#rows, capacity, effects);
    const expired = steps.endDue(this.#rows.locked, now, maxAttemptsOf(first));
    const [, claims] = await allSettled([
      this.#rows.write(sql, now),
      this.#isLimited ? this.#claimInTurn(steps, context) : this.#claimAll(steps, context),
    ]);
    const allDead = [...expired, ...claims.flatMap(({ dead }) => dead)];
    if (allDead.length > 0) {
      effects.willChange();
      const callIds = allDead.map(({ call_id }) => call_id);
      effects.willNeedPayments(callIds);
      effects.willEnd(callIds);
      effects.keys.willEnd(allDead);
      await effects.load(sql);
    }
    for (const [index, { calls, dead, suspectsLeft, nextInMs }] of claims.entries()) {
      for (const { callId } of calls) madeReady.delete(callId);
      const entry = this.#entries[index];
      const deadLettered = (index === 0 ? [...expired, ...dead] : dead).map((row) =>
        effects.deadLettered(row),
      );
      if (entry?.name === "claim") entry.decide({ calls, deadLettered, suspectsLeft, nextInMs });
      else entry?.decide(deadLettered);
    }
    const isOrdered = this.#rows.locked.some(({ order_key }) => order_key !== null);
    if (allDead.length > 0 || this.#isLimited || isOrdered) await effects.write(context);
  }

  get #isLimited(): boolean {
    return this.#entries.some((entry) => limitsOfEntry(entry).length > 0);
  }

  #claimAll(steps: LeaseSteps, context: BatchContext): Promise<Found[]> {
    return allSettled(this.#entries.map((entry) => this.#claimOf(entry, steps, context)));
  }

  /** Claims one after the other, because each claim counts the JobCalls that earlier claims took of a limit. */
  async #claimInTurn(steps: LeaseSteps, context: BatchContext): Promise<Found[]> {
    const found: Found[] = [];
    for (const entry of this.#entries) found.push(await this.#claimOf(entry, steps, context));
    return found;
  }

  async #claimOf(entry: ClaimEntry, steps: LeaseSteps, context: BatchContext): Promise<Found> {
    if (entry.name !== "claim") return NOTHING;
    const [request] = entry.input;
    const limited = limitsOf(request);
    if (limited.length === 0) return this.#claim(request, undefined, steps, context);
    const { sql, now, effects } = context;
    const jobIds = limited.map(({ jobId }) => String(jobId));
    const counted = await sql.run(COUNT_OUT, [jobIds]);
    const out = new Map(counted.map(({ job_id, out }) => [job_id, Number(out)]));
    const limits = new ClaimLimits(limited, { out, rows: effects.rows, now });
    const found = await this.#claim(request, limits, steps, context);
    return { ...found, nextInMs: limits.finish() };
  }

  async #claim(
    request: ClaimRequest,
    limits: ClaimLimits | undefined,
    steps: LeaseSteps,
    context: BatchContext,
  ): Promise<Found> {
    const { sql, now, hasFailed } = context;
    const { limit, leaseMs, maxAttempts, subscriber, reserves = false } = request;
    const leaseExpiresAt = now + leaseMs;
    const calls: ClaimedCall[] = [];
    const dead: DeadRow[] = [];
    // A job named twice must not be claimed twice.
    const jobIds = [...new Set(request.jobIds.map(String))];
    const except = jobIds.length === 0 ? (request.exceptJobIds ?? []).map(String) : [];
    let suspectsLeft = false;
    if (request.suspects !== undefined) {
      const wanted = Math.min(request.suspects, limit, limits === undefined ? limit : 1);
      const without = [...except, ...(limits?.full ?? [])];
      const values = [wanted, now, leaseExpiresAt, maxAttempts, storable(subscriber)];
      const rows = await sql.run(CLAIM_SUSPECTS, [...values, jobIds, without, reserves]);
      suspectsLeft = rows.some(({ fate }) => fate === "more");
      for (const row of rows) if (row.fate === "leased") calls.push(claimedCall(row, leaseExpiresAt, true));
      if (calls.length > 0) {
        await mark(sql, calls, limits);
        return { calls, dead, suspectsLeft };
      }
    }
    let width = limit;
    let isOfAny = limits === undefined && jobIds.length === 0 && except.length === 0 && !reserves;
    let goesOn = limit > 0;
    while (goesOn) {
      const values = [limit - calls.length, now, leaseExpiresAt, maxAttempts, storable(subscriber)];
      const rows = await (limits !== undefined
        ? sql.run(CLAIM_LIMITED, [...values, ...limitedBy(limits, { jobIds, except, width }), reserves])
        : jobIds.length > 0
          ? sql.run(CLAIM_OF_JOBS, [...values, jobIds, width, reserves])
          : isOfAny
            ? sql.run(CLAIM_ANY, values)
            : sql.run(CLAIM_ALL_BUT, [...values, except, width, reserves]));
      const taken = rows.flatMap((row) =>
        row.fate === "leased" ? claimedCall(row, leaseExpiresAt, false) : [],
      );
      calls.push(...taken);
      await mark(sql, taken, limits);
      const usedUp = rows.flatMap((row) => (row.fate === "used_up" ? row.used_up : []));
      // Another claim of the batch may already have found these JobCalls.
      const found = usedUp.filter(({ call_id }) => this.#rows.find(call_id)?.state !== "dead");
      dead.push(...steps.endDue(found, now, maxAttempts));
      await this.#rows.write(sql, now);
      const hasMore = rows.some(({ fate }) => fate === "more");
      if (hasMore && !isOfAny) width *= WIDENING;
      isOfAny &&= !hasMore;
      // Dead letters took the place of other due JobCalls.
      goesOn = (hasMore || usedUp.length > 0) && calls.length < limit && !hasFailed();
    }
    return { calls, dead, suspectsLeft };
  }
}

function maxAttemptsOf(entry: ClaimEntry): number {
  return entry.name === "claim" ? entry.input[0].maxAttempts : entry.input[0];
}

function limitsOfEntry(entry: ClaimEntry) {
  return entry.name === "claim" ? limitsOf(entry.input[0]) : [];
}

/** Values of the parameters $6 to $10. */
function limitedBy(
  { left }: ClaimLimits,
  {
    jobIds,
    except,
    width,
  }: { readonly jobIds: readonly string[]; readonly except: readonly string[]; readonly width: number },
): unknown[] {
  const isListed = jobIds.length > 0;
  return [isListed ? jobIds : except, width, isListed, [...left.keys()], numberArray([...left.values()])];
}

/** Counts claimed JobCalls towards the limits of their jobs. */
async function mark(sql: Sql, calls: readonly ClaimedCall[], limits: ClaimLimits | undefined): Promise<void> {
  if (limits === undefined || calls.length === 0) return;
  const callIds = numberArray(calls.map(({ callId }) => callId));
  for (const { job_id } of await sql.run(MARK_LIMITED, [callIds, [...limits.left.keys()]]))
    limits.took(job_id);
}

/** Result of one claim. */
interface Found {
  readonly nextInMs?: number | undefined;
  readonly calls: ClaimedCall[];
  readonly dead: DeadRow[];
  readonly suspectsLeft: boolean;
}

function claimedCall(row: FoundRow, leaseExpiresAt: number, suspect: boolean): ClaimedCall {
  const {
    call_id: callId,
    lease_token: leaseToken,
    attempts: attempt,
    forgiven,
    enqueued_at: enqueuedAt,
    ceiling,
    encoded,
  } = row;
  const deferred = ceiling !== null;
  return { callId, leaseToken, encoded, attempt, forgiven, enqueuedAt, leaseExpiresAt, suspect, deferred };
}
