import type { JobCall } from "../../core/job-call.ts";

/** Dead letters, for operators. */
export interface DeadLetterBox {
  /** Newest first. `before` is the `callId` to page from. */
  listDeadLetters(filter: { limit: number; before?: number }): Promise<DeadLetter[]>;
  findDeadLetter(callId: number): Promise<(DeadLetter & { encoded: Uint8Array }) | undefined>;
  /** Puts a dead letter back in the queue with its attempts forgiven; the attempt number goes on counting. */
  retryDeadLetter(callId: number): Promise<boolean>;
  /** Deletes a dead letter. A paid call's journal entry stays and says that it failed. */
  dropDeadLetter(callId: number): Promise<boolean>;
}

export interface DeadLetter {
  readonly callId: number;
  readonly origin: JobCall["origin"];
  readonly jobId: bigint;
  readonly serviceId: bigint;
  readonly attempts: number;
  readonly reason: string;
  /** Unix milliseconds. */
  readonly enqueuedAt: number;
  /** Unix milliseconds. */
  readonly deadAt: number;
}
