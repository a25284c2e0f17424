import { expect, test } from "vitest";
import { RetryTimes } from "../../../src/x402/settlement/retry-times.ts";

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
