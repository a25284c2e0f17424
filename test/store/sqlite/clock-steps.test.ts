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
  const store = await openSqliteStore({
    path: join(folder, "jobgate.db"),
    maxPending: 10,
    threads: false,
    encodeJobCall: ({ body }) => body,
    clock: () => clocks.wall,
    monotonic: () => clocks.monotonic,
  });
  onTestFinished(() => store.close());
  const elapse = (ms: number) => {
    clocks.wall += ms;
    clocks.monotonic += ms;
  };
  return { store, clocks, elapse };
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
