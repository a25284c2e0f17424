import type { Database } from "../driver.ts";

export interface ReadyRow {
  call_id: number;
  attempts: number;
  forgiven: number;
  enqueued_at: number;
}

/** Gives up to `limit` ready JobCalls in order of their call id. No job ids: of all jobs. */
export type NextReady = (jobIds: readonly bigint[], limit: number) => ReadyRow[];

/** Reads no other rows, however long the queue and however many others are leased or delayed. */
export function prepareNextReady(database: Database): NextReady {
  const columns = "call_id, attempts, forgiven, enqueued_at";
  const selectAny = database.prepare<ReadyRow>(
    `SELECT ${columns} FROM job_calls INDEXED BY job_calls_ready
      WHERE state = 'ready' ORDER BY call_id LIMIT ?`,
  );
  const selectOfJob = database.prepare<ReadyRow>(
    `SELECT ${columns} FROM job_calls INDEXED BY job_calls_ready_by_job
      WHERE state = 'ready' AND job_id = ? ORDER BY call_id LIMIT ?`,
  );
  return (jobIds, limit) => {
    if (jobIds.length === 0) return selectAny.all([limit]);
    // A job named twice must not be claimed twice.
    const distinct = [...new Set(jobIds.map(String))];
    return distinct
      .flatMap((jobId) => selectOfJob.all([jobId, limit]))
      .sort((a, b) => a.call_id - b.call_id)
      .slice(0, limit);
  };
}
