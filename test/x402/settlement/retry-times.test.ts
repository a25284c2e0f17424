import { expect, test } from "vitest";
import { decidedChecksDue, longestDelay, RetryTimes } from "../../../src/x402/settlement/retry-times.ts";

test("Each delay is twice the last, up to the longest, and payments do not wait for each other", () => {
  let now = 0;
  const times = new RetryTimes(() => now);
  for (const delayMs of [100, 200, 400, 500, 500]) {
    expect(times.isDue("one")).toBe(true);
    times.retryLater("one", 100, 500);
    now += delayMs - 1;
    expect([times.isDue("one"), times.isDue("other")]).toEqual([false, true]);
    now += 1;
  }
});

test("A payment is checked at the end of its authorization, every 2 s after it, and every 5 s a minute later", () => {
  expect([60_000, 20_000, 3_000, -1, -60_000, -60_001].map(longestDelay)).toEqual([
    30_000, 20_000, 3_000, 2_000, 2_000, 5_000,
  ]);
});

test("A payment that needs another check soon waits for the first delay, which doubles from then on", () => {
  let now = 0;
  const times = new RetryTimes(() => now);
  for (let attempts = 0; attempts < 5; attempts++) times.retryLater("one", 100, 10_000);
  for (const delayMs of [100, 100, 200]) {
    if (delayMs === 100) times.retrySoon("one", 100);
    else times.retryLater("one", 100, 10_000);
    now += delayMs - 1;
    expect(times.isDue("one")).toBe(false);
    now += 1;
    expect(times.isDue("one")).toBe(true);
  }
});

test("A payment that is decided is forgotten", () => {
  const times = new RetryTimes(() => 0);
  times.retryLater("one", 100, 500);
  times.forget("one");
  expect(times.isDue("one")).toBe(true);
});

test("A decided payment is checked at once, after one minute, two, four, and up to an hour, then each hour", () => {
  const minutes = [-1, 0, 0.5, 1, 1.9, 2, 4, 8, 16, 32, 59, 60, 119, 120, 180, 24 * 60];
  expect(minutes.map((age) => decidedChecksDue(age * 60_000, 60_000))).toEqual([
    0, 1, 1, 2, 2, 3, 4, 5, 6, 7, 7, 7, 7, 8, 9, 30,
  ]);
});
