/** Removal of old rows, in bounded steps, so that no accept waits long for a step. */
export interface Pruning {
  /**
   * Deletes entries that ended longer ago than an age, on the store's clock. Reads a bounded number of them, in the
   * order of their call IDs. One process at a time prunes; other processes get an empty outcome.
   *
   * - `results`: outcomes of paid calls, with their results.
   * - `calls`: outcomes of calls, for the operator's lists.
   * - `payments`: decided payments, except payments that the chain may still contradict, payments whose authorization
   *   may still be valid, and payments of kept calls. These exceptions ensure that no payment can be used twice.
   * - `chunks`: chunks of any age whose results were not acked, or were deleted.
   *
   * Rows that a part's module keeps stay (`KeptRows`). The totals still include deleted entries.
   */
  prune(step: PruneStep): Promise<PruneOutcome>;

  /**
   * Deletes the bytes, headers and type of a call's result at once, and keeps the call's outcome.
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
  /** Call ID after which the step begins; 0 begins at the oldest. */
  readonly after: number;
}

export interface PruneOutcome {
  readonly removed: number;
  /** `after` of the next step; undefined if no older entries are left. */
  readonly next?: number;
}
