import { expect, it } from "vitest";
import { Backoff, backoffMs, withJitter } from "../../src/core/backoff.ts";

const LIMITS = { firstMs: 100, longestMs: 1_000 };

it("Each delay is twice the last, up to the longest, until a success", () => {
  const backoff = new Backoff(LIMITS);
  expect(Array.from({ length: 6 }, () => backoff.next())).toEqual([100, 200, 400, 800, 1_000, 1_000]);
  backoff.reset();
  expect(backoff.next()).toBe(100);
});

it("A delay stays finite after any number of failures", () => {
  expect(backoffMs({ firstMs: 1, longestMs: Number.MAX_VALUE }, 1e9)).toBe(2 ** 52);
});

it.each([
  [0, 50],
  [0.5, 75],
])("Jitter %d leaves at least half of a delay", (random, delayMs) => {
  expect(withJitter(100, random)).toBe(delayMs);
});
