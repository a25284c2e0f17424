/** Removal of what is old, in bounded steps, so that no accept waits long for one. */
export interface Pruning {
  /**
   * Forgets entries that ended longer ago than an age, by the store's clock. Looks at a bounded number of them, in the
   * order of their call IDs. Of several processes, one at a time forgets; for the others there is nothing to do.
   *
   * - `results`: how paid calls ended, with their results.
   * - `calls`: how calls ended, for the operator's lists.
   * - `payments`: decided ones, without those that the chain may still contradict, those whose authorization may still be
   *   valid, and those that a kept call belongs to: nothing can be paid twice.
   * - `chunks`: chunks of results that were not acked, or that are forgotten, whatever their age.
   *
   * Rows that a part's module keeps stay (`KeptRows`).
   * The totals count what was forgotten too.
   */
  prune(step: PruneStep): Promise<PruneOutcome>;

  /**
   * Forgets the bytes, headers and type of a call's result at once, and keeps how the call ended.
   * @returns true if more of it is left to remove
   */
  forgetResult(callId: number): Promise<boolean>;

  /**
   * Gives a bounded part of the free space back to the file system.
   * @returns true if there is more to give back
   */
  shrink(): Promise<boolean>;
}

export type PrunedKind = "results" | "calls" | "payments" | "chunks";

export interface PruneStep {
  readonly kind: PrunedKind;
  readonly ageMs: number;
  /** Call ID that the step begins after; 0 is the oldest. */
  readonly after: number;
}

export interface PruneOutcome {
  readonly removed: number;
  /** `after` of the next step; absent when no older entries are left. */
  readonly next?: number;
}
