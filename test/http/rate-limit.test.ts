import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { RateLimit } from "../../src/http/rate-limit.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("Allows as many uses in a window as the limit says, and the next window starts from zero", () => {
  const limit = new RateLimit(10);
  for (let use = 0; use < 3; use++) expect(limit.exceeded("a", 3)).toBeUndefined();
  vi.advanceTimersByTime(4_000);
  expect(limit.exceeded("a", 3)).toBe(6_000);
  vi.advanceTimersByTime(6_000);
  expect(limit.exceeded("a", 3)).toBeUndefined();
});

test("Each key has its own count and may have its own limit", () => {
  const limit = new RateLimit();
  const exceeded = [
    limit.exceeded("a", 1),
    limit.exceeded("b", 2),
    limit.exceeded("a", 1),
    limit.exceeded("b", 2),
    limit.exceeded("b", 2),
  ];
  expect(exceeded).toEqual([undefined, undefined, 1_000, undefined, 1_000]);
});

test("A refusal says in whole seconds when to try again", () => {
  const limit = new RateLimit(10);
  limit.count("a", 1, "Too much");
  vi.advanceTimersByTime(8_500);
  const refusal = expect.objectContaining({
    code: "rate_limited",
    message: "Too much: try again in 2 s.",
    headers: { "retry-after": "2" },
  });
  expect(() => limit.count("a", 1, "Too much")).toThrow(refusal);
});
