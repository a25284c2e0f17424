/** A key whose next JobCall waits until the operator has decided about a dead letter. */
export interface HeldKey {
  /** Path of the webhook endpoint. */
  readonly owner: string;
  readonly key: string;
  /** The dead letter. */
  readonly callId: number;
  /** JobCalls that wait for it. */
  readonly waiting: number;
  /** Unix milliseconds. */
  readonly since: number;
}

/** Keys with unfinished JobCalls, and how many JobCalls wait for others of their keys. */
export interface KeyCounts {
  readonly owner: string;
  readonly keys: number;
  readonly held: number;
  readonly waiting: number;
}

/** Keys of ordered JobCalls. A key is kept while it has an unfinished JobCall. */
export interface KeyLedger {
  /** Returns the keys that are held, the longest held first. */
  listHeldKeys(limit: number): Promise<HeldKey[]>;
  countKeys(): Promise<KeyCounts[]>;
}
