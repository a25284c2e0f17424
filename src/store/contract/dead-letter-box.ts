import type { JobCall } from "../../core/job-call.ts";

/** Dead letters, for operators. */
export interface DeadLetterBox {
  /**
   * Lists the largest groups first. `listCalls` lists the dead letters of a group.
   * @param text selects the groups whose reason contains this text, in any letter case
   */
  listDeadLetterGroups(limit: number, text?: string): Promise<DeadLetterGroups>;
  findDeadLetter(callId: number): Promise<(DeadLetter & { encoded: Uint8Array }) | undefined>;
  /**
   * Puts a dead letter back in the queue and no longer counts its attempts, but continues their numbers. Refuses a dead
   * letter whose buyer may be paid back, because the buyer would get both the job and the money.
   */
  retryDeadLetter(callId: number): Promise<RetryDeadLetterOutcome>;
  /** Deletes a dead letter. A paid call's journal entry stays, and records that the call failed. */
  dropDeadLetter(callId: number): Promise<boolean>;
}

/** Number of characters of a reason, without its numbers, that dead letters of one group share. */
export const GROUPED_CHARACTERS = 200;

/** Returns the reason of a dead letter's group, with # for each number. The Postgres store computes the same in SQL. */
export function groupedReason(reason: string): string {
  return [...reason.replace(/[0-9]+/g, "#")].slice(0, GROUPED_CHARACTERS).join("");
}

/** The dead letters of one job with one reason, whatever numbers the reason contains. */
export interface DeadLetterGroup {
  readonly origin: JobCall["origin"];
  readonly serviceId: bigint;
  readonly jobId: bigint;
  /** Reason in the form of {@link groupedReason}. */
  readonly reason: string;
}

export interface DeadLetterGroups {
  readonly groups: readonly (DeadLetterGroup & {
    readonly count: number;
    /** Unix milliseconds. */
    readonly oldestDeadAt: number;
    readonly newestDeadAt: number;
  })[];
  /** Number of the groups with the text, including groups beyond the limit. */
  readonly totalGroups: number;
  readonly totalDeadLetters: number;
}

/** `buyer_paid_back`: the dead letter's buyer is not charged, or is or may be paid back. */
export type RetryDeadLetterOutcome = "retried" | "not_found" | "buyer_paid_back";

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
