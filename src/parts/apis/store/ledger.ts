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
