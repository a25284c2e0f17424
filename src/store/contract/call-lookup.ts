import type { JobResult, Progress } from "./work-queue.ts";

/** State of paid calls, for the clients who paid. Only paid calls are kept after they are done. */
export interface CallLookup {
  findCall(callId: number): Promise<CallState | undefined>;
  findResult(callId: number): Promise<JobResult | undefined>;
}

export interface CallState {
  readonly callId: number;
  /** Quote digest; whoever knows it has paid for the call. */
  readonly receipt: string;
  readonly state: "held" | "queued" | "running" | "succeeded" | "failed";
  readonly attempt: number;
  /** Only while `running`, and only once the runner has reported progress. */
  readonly progress?: Progress;
  /** Unix milliseconds. */
  readonly enqueuedAt: number;
  /** Unix milliseconds. */
  readonly finishedAt?: number;
}
