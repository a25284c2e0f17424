import type { JobResult, Progress } from "./work-queue.ts";

/** For the client who paid: how its call is doing. Only paid calls are kept after they are done. */
export interface CallLookup {
  findCall(callId: number): Promise<CallState | undefined>;
  findResult(callId: number): Promise<JobResult | undefined>;
}

export interface CallState {
  readonly callId: number;
  /** The quote digest that proves the asker paid for it. */
  readonly receipt: string;
  readonly state: "held" | "queued" | "running" | "succeeded" | "failed";
  readonly attempt: number;
  /** Only while `running`, and only once the runner has told of it. */
  readonly progress?: Progress;
  /** Unix milliseconds. */
  readonly enqueuedAt: number;
  /** Unix milliseconds. */
  readonly finishedAt?: number;
}
