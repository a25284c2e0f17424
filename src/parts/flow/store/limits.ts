import type { CallRate, JobLimit } from "../../../core/job-call.ts";
import type { Limiting, SchemaDialect } from "../../../store/module.ts";
import { keyIn, type Table } from "../../../store/rows.ts";
import type { UsedLimit } from "./ledger.ts";

/** A job with a limit. */
interface LimitRow {
  readonly job_id: string;
  /** JSON of {@link Starts}. */
  readonly starts: string;
}

/** Numbers of JobCalls that were claimed up to each time, oldest first. Times are Unix milliseconds, rounded up. */
type Starts = readonly (readonly [at: number, calls: number])[];

const LIMITS: Table<LimitRow, "job_id"> = {
  name: "job_limits",
  key: ["job_id"],
  columns: ["job_id", "starts"],
};

/**
 * Parts that a rate's period is divided into. More parts make the row longer. Fewer parts make JobCalls wait longer than
 * necessary.
 */
const PARTS = 100;

/**
 * Longest time for which a claim waits for the row of its job. During the wait, claims that began later may write the
 * row first.
 */
const LATE_MS = 10_000;

export const limitsSchema = ({ schema, churning }: SchemaDialect): string => `
-- Jobs with a limit. A claim of the job locks its row, so that no two claims count at once.
CREATE TABLE ${schema}job_limits (
  job_id TEXT NOT NULL PRIMARY KEY,
  starts TEXT NOT NULL
)${churning};
`;

/**
 * Limits of jobs. Leased JobCalls are counted in the index of leases. The row of a job keeps the times at which its latest
 * JobCalls were claimed.
 */
export const LIMITING: Limiting = {
  row: (jobId) => keyIn(LIMITS, { job_id: jobId }),

  allowance({ jobId, concurrency = Number.MAX_SAFE_INTEGER, rate }, out, rows, now) {
    const places = Math.max(0, concurrency - out);
    if (rate === undefined) return { most: places, nextInMs: undefined };
    const job_id = String(jobId);
    const row = rows.find(LIMITS, { job_id });
    const starts = startsOf(row, rate, now);
    // The clock was set back. JobCalls with a later time are recorded as claimed now, so that the rate does not wait until that
    // time.
    if (row !== undefined && latestOf(row) > endOfPart(rate, now) + LATE_MS)
      rows.put(LIMITS, { job_id, starts: JSON.stringify(starts) });
    const { left, nextInMs } = leftOf(rate, starts, now);
    return { most: Math.max(0, Math.min(places, left)), nextInMs };
  },

  took({ jobId, rate }, calls, rows, now) {
    const job_id = String(jobId);
    const row = rows.find(LIMITS, { job_id });
    if (rate === undefined) {
      if (row === undefined) rows.put(LIMITS, { job_id, starts: "[]" });
      return;
    }
    const starts: (readonly [number, number])[] = [...startsOf(row, rate, now)];
    const at = Math.max(endOfPart(rate, now), starts.at(-1)?.[0] ?? 0);
    const last = starts.at(-1)?.[0] === at ? starts.pop() : undefined;
    starts.push([at, (last?.[1] ?? 0) + calls]);
    rows.put(LIMITS, { job_id, starts: JSON.stringify(starts) });
  },
};

/** Returns how much of its limits a job uses. @param starts column of its row, if it has one */
export function usedLimit(
  { rate }: JobLimit,
  starts: string | undefined,
  out: number,
  now: number,
): UsedLimit {
  if (rate === undefined) return { out, nextInMs: undefined };
  const row = starts === undefined ? undefined : { job_id: "", starts };
  return { out, nextInMs: leftOf(rate, startsOf(row, rate, now), now).nextInMs };
}

function leftOf(rate: CallRate, starts: Starts, now: number) {
  const left = rate.calls - starts.reduce((sum, [, calls]) => sum + calls, 0);
  const [first] = starts;
  const nextInMs = left > 0 || first === undefined ? undefined : first[0] + rate.perMs - now;
  return { left, nextInMs };
}

/**
 * Returns the starts within the rate's period. Times long after now were recorded before the clock was set back, and are left
 * out.
 */
function startsOf(row: LimitRow | undefined, rate: CallRate, now: number): Starts {
  const latest = endOfPart(rate, now);
  return (JSON.parse(row?.starts ?? "[]") as Starts)
    .map(([at, calls]) => [at > latest + LATE_MS ? latest : at, calls] as const)
    .filter(([at]) => at > now - rate.perMs);
}

function latestOf({ starts }: LimitRow): number {
  return (JSON.parse(starts) as Starts).at(-1)?.[0] ?? 0;
}

function endOfPart({ perMs }: CallRate, now: number): number {
  const part = Math.max(1, Math.floor(perMs / PARTS));
  return Math.ceil(now / part) * part;
}
