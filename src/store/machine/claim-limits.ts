import type { JobLimit } from "../../core/job-call.ts";
import type { ClaimRequest } from "../contract/work-queue.ts";
import { LIMITING } from "../modules/modules.ts";
import type { Rows } from "../rows.ts";

/** Returns the limits of the jobs whose JobCalls a claim can return. */
export function limitsOf({ jobIds, exceptJobIds = [], limits = [] }: ClaimRequest): readonly JobLimit[] {
  if (LIMITING === undefined) return [];
  return limits.filter(({ jobId }) =>
    jobIds.length === 0 ? !exceptJobIds.includes(jobId) : jobIds.includes(jobId),
  );
}

/** JobCalls that the limits of jobs leave to one claim. */
export class ClaimLimits {
  readonly #rows: Rows;
  readonly #now: number;
  readonly #jobs = new Map<string, { readonly limit: JobLimit; out: number; left: number; taken: number }>();

  /** @param out leased JobCalls by job */
  constructor(
    limits: readonly JobLimit[],
    {
      out,
      rows,
      now,
    }: { readonly out: ReadonlyMap<string, number>; readonly rows: Rows; readonly now: number },
  ) {
    this.#rows = rows;
    this.#now = now;
    for (const limit of limits) {
      const job = { limit, out: out.get(String(limit.jobId)) ?? 0, left: 0, taken: 0 };
      job.left = this.#allowance(job)?.most ?? Number.MAX_SAFE_INTEGER;
      this.#jobs.set(String(limit.jobId), job);
    }
  }

  /** JobCalls that can be given out, by the IDs of the limited jobs. */
  get left(): ReadonlyMap<string, number> {
    return new Map([...this.#jobs].map(([jobId, { left }]) => [jobId, left]));
  }

  /** Jobs whose limit allows no further JobCall. */
  get full(): string[] {
    return [...this.#jobs].flatMap(([jobId, { left }]) => (left === 0 ? jobId : []));
  }

  /** Notes that a JobCall of a job was given out. */
  took(jobId: string): void {
    const job = this.#jobs.get(jobId);
    if (job !== undefined) Object.assign(job, { left: job.left - 1, taken: job.taken + 1 });
  }

  /**
   * Records the JobCalls that were given out. @returns milliseconds until a rate allows another JobCall; undefined if no
   * rate withholds one
   */
  finish(): number | undefined {
    const next: number[] = [];
    for (const job of this.#jobs.values()) {
      if (job.taken > 0) LIMITING?.took(job.limit, job.taken, this.#rows, this.#now);
      job.out += job.taken;
      next.push(this.#allowance(job)?.nextInMs ?? Number.POSITIVE_INFINITY);
    }
    const nextInMs = Math.min(...next);
    return Number.isFinite(nextInMs) ? nextInMs : undefined;
  }

  #allowance({ limit, out }: { readonly limit: JobLimit; readonly out: number }) {
    return LIMITING?.allowance(limit, out, this.#rows, this.#now);
  }
}
