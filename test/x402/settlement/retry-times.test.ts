import { expect, test } from "vitest";
import { longestDelay, RetryTimes } from "../../../src/x402/settlement/retry-times.ts";

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

test("A payment that needs another look soon waits for the first delay, and doubles it from then on", () => {
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
