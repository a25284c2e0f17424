import { expect, test } from "vitest";
import type { CounterReader, HistogramReader } from "../../../src/core/instruments.ts";
import { jobMeasures } from "../../../src/parts/operator/job-measures.ts";

const LABELS = { service_id: "1", job_id: "7" };

/** A series with bounds of 10, 25 and 50 ms. */
function series(labels: object, ...counts: readonly number[]) {
  const bounds = [0.01, 0.025, 0.05, Number.POSITIVE_INFINITY];
  return { labels, counts: bounds.map((upTo, i) => ({ upTo, count: counts[i] ?? 0 })) };
}

const time = (ms: number) => expect.objectContaining({ seconds: 0n, nanos: ms * 1_000_000 });

test("A job's API calls are counted by class of status, and its times estimated from all of them", () => {
  const call = (outcome: string) => ({ api: "weather", ...LABELS, outcome });
  const calls = [series(call("200"), 0, 8), series(call("201"), 0, 1), series(call("lost"), 0, 0, 1)];
  const answers = [series(LABELS, 0, 0, 0, 1)];
  const measured = jobMeasures(
    ((name) => (name === "jobgate_api_call_duration_seconds" ? calls : answers)) as HistogramReader,
    () => [],
  );
  expect(measured({ serviceId: 1n, jobIndex: 7 })).toEqual({
    apiCalls: [
      { outcome: "2xx", count: 9n },
      { outcome: "lost", count: 1n },
    ],
    // 5 of the 9 between 10 and 25 ms, and half of the one between 25 and 50 ms.
    apiTimes: { p50: time(18), p95: time(38) },
    // What lies above the last bound is that bound.
    answerTimes: { p50: time(50), p95: time(50) },
    access: [],
  });
  expect(measured({ serviceId: 1n, jobIndex: 8 })).toEqual({ apiCalls: [], access: [] });
});

test("Requests without a payment are counted by who gets in, whatever became of them", () => {
  const of = (by: string, name: string, code: string) => ({ api: "weather", ...LABELS, by, name, code });
  const counts = [
    { labels: of("key", "bob", "200"), value: 3 },
    { labels: of("key", "ada", "200"), value: 2 },
    { labels: of("key", "ada", "rate_limited"), value: 5 },
    { labels: of("payment", "", "200"), value: 1 },
  ];
  const measured = jobMeasures(() => [], (() => counts) as unknown as CounterReader);
  expect(measured({ serviceId: 1n, jobIndex: 7 }).access).toEqual([
    { by: "payment", name: "", count: 1n },
    { by: "key", name: "ada", count: 7n },
    { by: "key", name: "bob", count: 3n },
  ]);
});
