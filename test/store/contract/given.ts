import { inspect } from "node:util";
import { afterEach, beforeEach, expect } from "vitest";
import type { Clock } from "../../../src/core/clock.ts";
import { isBalanced } from "../../../src/store/rules/payments.ts";
import type { BatchListener, Store } from "../../../src/store/store.ts";
import { claimCalls, NO_BACKOFF, START_MS } from "../store-fixtures.ts";

/** A store under test that can be closed and opened again. */
export interface StoreUnderTest {
  readonly store: Store;
  /** Closes the store and opens what it kept. */
  reopen(): Promise<Store>;
  /** Closes the store and removes what it kept. */
  dispose(): Promise<void>;
}

/** Opens an empty store that encodes a JobCall as its body. */
export type OpenStoreUnderTest = (options: {
  maxPending: number;
  clock: Clock;
  onBatch: BatchListener;
}) => Promise<StoreUnderTest>;

/** Start of each contract test: an empty store, and a clock that only the test moves. */
export interface Given {
  /** Unix milliseconds. */
  now: number;
  readonly store: Store;
  /** Number of operations in each batch written since the test began. */
  readonly batches: number[];
  /** Closes the store and opens what it kept. */
  reopen(): Promise<void>;
}

export const MAX_PENDING = 40;

/** Opens a new store before each test, and disposes of it after. */
export function givenStore(open: OpenStoreUnderTest): Given {
  let underTest: StoreUnderTest;
  const given = {
    now: START_MS,
    batches: [] as number[],
    get store() {
      return underTest.store;
    },
    async reopen() {
      await underTest.reopen();
    },
  };
  beforeEach(async () => {
    given.now = START_MS;
    given.batches = [];
    underTest = await open({
      maxPending: MAX_PENDING,
      clock: () => given.now,
      onBatch: ({ operations }) => given.batches.push(operations),
    });
  });
  afterEach(() => underTest.dispose());
  return given;
}

export const idsOf = (calls: readonly { callId: number }[]) => calls.map(({ callId }) => callId);

export const retryNow = (reason = "again") => ({ delayMs: 0, backoff: NO_BACKOFF, maxAttempts: 3, reason });

/** Makes dead letters of everything that is due. */
export async function failAll(store: Store, reason = "no good"): Promise<void> {
  for (const call of await claimCalls(store)) await store.fail(call, reason);
}

export async function expectBalance(store: Store): Promise<void> {
  const totals = await store.totals();
  expect(isBalanced(totals), inspect(totals)).toBe(true);
}
