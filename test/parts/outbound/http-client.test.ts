import { expect, test } from "vitest";
import { retryAfterMs } from "../../../src/parts/outbound/http-answer.ts";

const NOW = Date.UTC(2026, 0, 2, 3, 4, 5);
const DAY_MS = 86_400_000;

test.each([
  [undefined, undefined],
  ["120", 120_000],
  ["0", undefined],
  ["-1", undefined],
  ["soon", undefined],
  ["1.5", undefined],
  ["Fri, 02 Jan 2026 03:04:35 GMT", 30_000],
  ["Fri, 02 Jan 2026 03:04:05 GMT", undefined],
  ["2026-01-03", undefined],
  ["99999999999999999999999", 86_400_000],
  ["Sat, 02 Jan 2100 00:00:00 GMT", 86_400_000],
])("Retry-After %j waits %j ms", (value, expected) => {
  expect(retryAfterMs(value, NOW, DAY_MS)).toBe(expected);
});
