import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { testFolder } from "../../helpers/test-folder.ts";
import { acceptId, claimCalls, claimOne, LEASE_MS, START_MS } from "../store-fixtures.ts";

const HOUR_MS = 3_600_000;

/** Opens a store for one test, with a wall clock that the test sets and a clock that only elapses. */
async function openWithClocks() {
  const clocks = { wall: START_MS, monotonic: 5_000 };
  const folder = await testFolder();
  const open = () =>
    openSqliteStore({
      path: join(folder, "jobgate.db"),
      maxPending: 10,
      threads: false,
      encodeJobCall: ({ body }) => body,
      clock: () => clocks.wall,
      monotonic: () => clocks.monotonic,
    });
  let store = await open();
  onTestFinished(() => store.close());
  /** Sets the clock while no gateway runs. */
  const restartAt = async (wall: number) => {
    await store.close();
    clocks.wall = wall;
    store = await open();
    return store;
  };
  const elapse = (ms: number) => {
    clocks.wall += ms;
    clocks.monotonic += ms;
  };
  return { store, clocks, elapse, restartAt };
}

test("A lease and a delay run out in their time although the wall clock goes back an hour", async () => {
  const { store, clocks, elapse } = await openWithClocks();
  const leased = await acceptId(store);
  const lease = await claimOne(store);
  const delayed = await acceptId(store);
  const backoff = { baseMs: 0, maxMs: 0 };
  await store.retry(await claimOne(store), { delayMs: 20_000, backoff, maxAttempts: 3, reason: "busy" });
  clocks.wall -= HOUR_MS;
  elapse(20_000);
  expect(await claimCalls(store)).toMatchObject([{ callId: delayed }]);
  elapse(LEASE_MS - 20_000 - 1);
  expect(await store.nextDueMs()).toBe(1);
  expect((await store.extend(lease, 30_000)).outcome).toBe("done");
  elapse(30_000);
  expect((await claimCalls(store)).map(({ callId }) => callId)).toContain(leased);
});

test("A lease does not run out early because the wall clock goes forward an hour", async () => {
  const { store, clocks, elapse } = await openWithClocks();
  await acceptId(store);
  const lease = await claimOne(store);
  clocks.wall += HOUR_MS;
  elapse(LEASE_MS - 1);
  expect(await claimCalls(store)).toEqual([]);
  expect(await store.ack(lease)).toEqual({ outcome: "done" });
});

test("A lease, an extended lease and a delay by a fast clock last no longer after the clock is set right", async () => {
  const { store, clocks, elapse, restartAt } = await openWithClocks();
  clocks.wall += HOUR_MS;
  const leased = await acceptId(store);
  const lease = await claimOne(store);
  const extended = await acceptId(store);
  const longLease = await claimOne(store);
  elapse(20_000);
  await store.extend(longLease, LEASE_MS);
  const delayed = await acceptId(store);
  const backoff = { baseMs: 0, maxMs: 0 };
  await store.retry(await claimOne(store), { delayMs: 10_000, backoff, maxAttempts: 3, reason: "busy" });

  const restarted = await restartAt(START_MS);
  elapse(9_999);
  expect(await claimCalls(restarted)).toEqual([]);
  elapse(1);
  const again = await claimOne(restarted);
  expect(again.callId).toBe(delayed);
  await restarted.ack(again);
  elapse(LEASE_MS - 10_001);
  expect((await restarted.extend(lease, 1)).outcome).toBe("done");
  elapse(1);
  expect(await claimCalls(restarted)).toMatchObject([{ callId: leased }]);
  elapse(19_999);
  expect(await claimCalls(restarted)).toEqual([]);
  elapse(1);
  expect(await claimCalls(restarted)).toMatchObject([{ callId: extended }]);
});

test("A lease found by a start under a slow clock runs out in its time once the clock is set right", async () => {
  const { store, clocks, elapse, restartAt } = await openWithClocks();
  const callId = await acceptId(store);
  await claimOne(store);
  const restarted = await restartAt(START_MS - 5 * HOUR_MS);
  elapse(1_000);
  clocks.wall += 5 * HOUR_MS;
  elapse(LEASE_MS - 1_001);
  expect(await claimCalls(restarted)).toEqual([]);
  elapse(1);
  expect(await claimCalls(restarted)).toMatchObject([{ callId }]);
});

test("A lease that a fast clock dealt does not end early because the clock is set right in two steps, before and after a restart", async () => {
  const { store, clocks, elapse, restartAt } = await openWithClocks();
  clocks.wall += HOUR_MS;
  const callId = await acceptId(store);
  await claimOne(store);
  clocks.wall -= LEASE_MS / 2;
  // The store notices with its next write.
  await store.retryDeadLetter(99);
  const restarted = await restartAt(START_MS);
  elapse(LEASE_MS - 1);
  expect(await claimCalls(restarted)).toEqual([]);
  elapse(1);
  expect(await claimCalls(restarted)).toMatchObject([{ callId }]);
});

test("A right clock changes no lease at a start", async () => {
  const { store, clocks, elapse, restartAt } = await openWithClocks();
  const callId = await acceptId(store);
  await claimOne(store);
  elapse(1_000);
  const restarted = await restartAt(clocks.wall);
  elapse(LEASE_MS - 1_001);
  expect(await claimCalls(restarted)).toEqual([]);
  elapse(1);
  expect(await claimCalls(restarted)).toMatchObject([{ callId }]);
});
