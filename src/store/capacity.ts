/**
 * How many JobCalls are not finished: held, ready, leased or waiting for a retry. Kept in memory, since
 * counting the rows for each accept would cost more than the accept.
 */
export interface Capacity {
  readonly pending: number;
  hasRoom(): boolean;
  /** @param change JobCalls that this operation added, or finished when negative */
  adjust(change: number): void;
  /** Sets `pending` back, when the transaction that adjusted it is rolled back. */
  restore(pending: number): void;
}

/** @param initialPending counted in the database when it was opened */
export function createCapacity(initialPending: number, maxPending: number): Capacity {
  let pending = initialPending;
  return {
    get pending() {
      return pending;
    },
    hasRoom: () => pending < maxPending,
    adjust: (change) => {
      pending += change;
    },
    restore: (earlier) => {
      pending = earlier;
    },
  };
}
