import type { CallOrder, JobLimit } from "../../../core/job-call.ts";

/** Full name of a key: the path of its webhook endpoint, and the key itself. */
export type KeyName = Pick<CallOrder, "owner" | "key">;

/** A key whose next JobCall waits until the operator has decided about a dead letter, or resumes the key. */
export interface HeldKey extends KeyName {
  /** JobCalls that wait. */
  readonly waiting: number;
  /** Dead letter that holds the key up; undefined if none does. */
  readonly deadLetter: { readonly callId: number; readonly since: number } | undefined;
  /** Undefined unless the operator has paused the key. */
  readonly pause: KeyPause | undefined;
}

/** Pause of a key. Times are Unix milliseconds. */
export interface KeyPause {
  readonly since: number;
  /** Operator's name. */
  readonly by: string;
  /** Empty if no reason was given. */
  readonly note: string;
  readonly refusesAccepts: boolean;
  /** True if a runner still has a JobCall of the key, which it may finish. */
  readonly isOneOut: boolean;
}

/** Key of a JobCall that waits, and what the key waits for. */
export interface KeyOfCall extends Pick<HeldKey, "owner" | "key" | "deadLetter" | "pause"> {
  /** JobCalls of the key that were accepted before and wait as well. */
  readonly before: number;
}

/** JobCalls of a job that count towards its limits. */
export interface UsedLimit {
  readonly out: number;
  /** Time until the job's rate allows another JobCall; undefined if it allows one now. */
  readonly nextInMs: number | undefined;
}

/** Key that has unfinished JobCalls or is paused. */
export interface FoundKey extends KeyName {
  /** Dead letter that holds the key up, or else the JobCall that has waited for the key longest; undefined if there is neither. */
  readonly callId: number | undefined;
}

/**
 * Number of an owner's keys that have a row, and number of the owner's JobCalls that wait for earlier JobCalls of their
 * keys.
 */
export interface KeyCounts {
  readonly owner: string;
  readonly keys: number;
  /** Keys that a dead letter holds up, paused or not. */
  readonly held: number;
  /** Keys that are paused, and that no dead letter holds up. */
  readonly paused: number;
  readonly waiting: number;
}

/** Keys of ordered JobCalls. A key is kept while it has an unfinished JobCall, and while it is paused. */
export interface KeyLedger {
  /**
   * Returns the keys that are held or paused, the longest first.
   * @param only one key, if it is held or paused
   */
  listHeldKeys(limit: number, only?: KeyName): Promise<HeldKey[]>;
  /** Finds the key of an unfinished JobCall; undefined if it has none. */
  findKeyOf(callId: number): Promise<KeyOfCall | undefined>;
  /** Finds the keys of an owner that begin with a text, byte for byte, in their order. */
  findKeys(beginning: KeyName, limit: number): Promise<FoundKey[]>;
  /** Finds how much of its limits a job uses. */
  findUsedLimit(limit: JobLimit): Promise<UsedLimit>;
  countKeys(): Promise<KeyCounts[]>;
  /**
   * Pauses a key, so that none of its JobCalls becomes ready any more. {@link findCallsOfKey} finds a JobCall that is already
   * ready. If the key is already paused, `since` stays and the other fields change.
   */
  pauseKey(pause: KeyName & Pick<KeyPause, "by" | "note" | "refusesAccepts">): Promise<void>;
  /** Finds the ready and delayed JobCalls of a key. It reads every ready or delayed JobCall. */
  findCallsOfKey(key: KeyName): Promise<number[]>;
  /** Ends a pause. @returns false if there was none */
  resumeKey(key: KeyName): Promise<boolean>;
}
