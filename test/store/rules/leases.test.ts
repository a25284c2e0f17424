import { expect, test } from "vitest";
import { retryDelayMs } from "../../../src/store/rules/leases.ts";

const backoff = { baseMs: 1000, maxMs: 300_000 };

test("The delay's bound doubles with each attempt, up to its maximum", () => {
  const bounds = [1, 2, 3, 9, 10, 2000].map((attempt) => retryDelayMs(backoff, attempt, 0.999_999_999));
  expect(bounds).toEqual([999, 1999, 3999, 255_999, 299_999, 299_999]);
});

test("The delay is the random part of its bound, in whole milliseconds", () => {
  expect([0, 0.25, 0.5].map((random) => retryDelayMs(backoff, 2, random))).toEqual([0, 500, 1000]);
  expect(retryDelayMs({ baseMs: 3, maxMs: 3 }, 1, 0.5)).toBe(1);
});
