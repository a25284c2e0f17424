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

test("A payment is checked at the latest 5 s after the end of its authorization, and every 5 s from then on", () => {
  expect([60_000, 20_000, 3_000, -1, -90_000].map(longestDelay)).toEqual([
    30_000, 20_000, 5_000, 5_000, 5_000,
  ]);
});
