import type { JobResult } from "../../contract/work-queue.ts";
import type { Database } from "../driver.ts";

/** Keeps how a paid JobCall ended, once its row in `job_calls` is gone. */
export type FinishPaidCall = (
  callId: number,
  state: "succeeded" | "failed",
  call: { readonly attempts: number; readonly enqueued_at: number },
  finishedAt: number,
  result?: JobResult,
) => void;

export function prepareFinishPaidCall(database: Database): FinishPaidCall {
  const insert = database.prepare(
    `INSERT INTO results (call_id, state, attempt, enqueued_at, finished_at, body, content_type)
     VALUES (?, ?, ?, ?, ?, ?, ?)`,
  );
  return (callId, state, call, finishedAt, result) => {
    const { attempts, enqueued_at } = call;
    const body = result?.body ?? null;
    insert.run([callId, state, attempts, enqueued_at, finishedAt, body, result?.contentType ?? null]);
  };
}
