import type { Lookup } from "../../../store/list-dialect.ts";
import type { ReservedJobRow, SchemaDialect, StoreModule } from "../../../store/module.ts";
import { keyIn, type Table } from "../../../store/rows.ts";

/** Jobs of APIs, whose JobCalls no runner gets. A job stays reserved when it leaves the configuration. */
export interface ReservedJobs {
  /** Lists the reserved jobs by their IDs. */
  listReservedJobs(): Promise<ReservedJob[]>;
  /** Reserves jobs. Call it before JobCalls of the jobs are accepted. */
  reserveJobs(jobIds: readonly bigint[]): Promise<void>;
  /** Lets runners have the JobCalls of jobs. */
  releaseJobs(jobIds: readonly bigint[]): Promise<void>;
}

export interface ReservedJob {
  readonly jobId: bigint;
  /** Number of JobCalls that are ready, or wait for their next attempt. */
  readonly waiting: number;
  /** Number of JobCalls with a lease. */
  readonly leased: number;
}

const TABLE: Table<ReservedJobRow, "job_id"> = {
  name: "reserved_jobs",
  key: ["job_id"],
  columns: ["job_id", "since"],
};

const reservedJobsSchema = ({ schema, integer, small }: SchemaDialect): string => `
-- Jobs that APIs do or did. A row stays until runners do the job.
CREATE TABLE ${schema}reserved_jobs (
  job_id TEXT PRIMARY KEY,
  since  ${integer} NOT NULL
)${small};
`;

const keysOf = (jobIds: readonly bigint[]) => jobIds.map((jobId) => keyIn(TABLE, { job_id: String(jobId) }));

/** Jobs whose JobCalls only APIs get. */
export const RESERVED_JOBS: StoreModule<ReservedJobs> = {
  schema: { table: TABLE.name, sql: reservedJobsSchema },
  reserving: TABLE,

  steps: {
    reserveJobs: {
      keys: keysOf,
      run({ rows }, now, jobIds) {
        for (const job_id of jobIds.map(String))
          if (rows.find(TABLE, { job_id }) === undefined) rows.put(TABLE, { job_id, since: now });
      },
    },

    releaseJobs: {
      keys: keysOf,
      run({ rows }, _now, jobIds) {
        for (const job_id of jobIds.map(String)) rows.remove(TABLE, { job_id });
      },
    },
  },

  lookups: {
    *listReservedJobs({ dialect: { schema, indexedBy } }): Lookup<ReservedJob[]> {
      const count = (index: string, where: string) =>
        `(SELECT count(*) FROM ${schema}job_calls${indexedBy(index)} WHERE ${where} AND job_calls.job_id = reserved.job_id)`;
      const countOpen = (state: "leased" | "delayed") =>
        count("job_calls_waiting", `state IN ('leased', 'delayed') AND state = '${state}'`);
      const sql = `SELECT job_id, ${countOpen("leased")} AS leased,
          ${count("job_calls_ready_by_job", "state = 'ready'")} + ${countOpen("delayed")} AS waiting
        FROM ${schema}reserved_jobs AS reserved ORDER BY job_id`;
      const rows = (yield { name: "list_reserved_jobs", sql, values: [] }) as (ReservedJobRow & {
        readonly waiting: number;
        readonly leased: number;
      })[];
      return rows.map(({ job_id, waiting, leased }) => {
        return { jobId: BigInt(job_id), waiting: Number(waiting), leased: Number(leased) };
      });
    },
  },
};
