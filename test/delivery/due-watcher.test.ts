import pino from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { DueWatcher } from "../../src/delivery/due-watcher.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Watches a store. The test sets when its next work is due. */
function watch() {
  const startedAt = Date.now();
  const store = { dueAt: undefined as number | undefined };
  const looks: number[] = [];
  const overdue: number[] = [];
  const since = () => Date.now() - startedAt;
  const watcher = new DueWatcher({
    workQueue: { nextDueMs: async () => store.dueAt && store.dueAt - Date.now() },
    onDue: () => void looks.push(since()),
    onOverdue: async () => void overdue.push(since()),
    clock: Date.now,
    logger: pino({ level: "silent" }),
  });
  return { watcher, store, looks, overdue, startedAt };
}

test("Polls when work is expected to become due, and then once a second", async () => {
  const { watcher, looks, startedAt } = watch();
  watcher.expect(startedAt + 250);
  watcher.expect(startedAt + 600);
  await vi.advanceTimersByTimeAsync(2_500);
  expect(looks).toEqual([250, 1_250, 2_250]);
  watcher.stop();
});

test("Polls when the store's next work is due", async () => {
  const { watcher, store, looks, startedAt } = watch();
  store.dueAt = startedAt + 1_400;
  await vi.advanceTimersByTimeAsync(1_399);
  expect(looks).toEqual([1_000]);
  await vi.advanceTimersByTimeAsync(1);
  expect(looks).toEqual([1_000, 1_400]);
  watcher.stop();
});

test("The watcher polls due work that no runner claims with increasing delay", async () => {
  const { watcher, store, overdue, startedAt } = watch();
  store.dueAt = startedAt;
  await vi.advanceTimersByTimeAsync(1_200);
  expect(overdue).toEqual([1_000, 1_010, 1_030, 1_070, 1_150]);
  watcher.stop();
});

test("Stops polling after a stop", async () => {
  const { watcher, looks, startedAt } = watch();
  watcher.stop();
  watcher.expect(startedAt + 10);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(looks).toEqual([]);
});
