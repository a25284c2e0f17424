import { create } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { EventHub } from "../../../src/core/events.ts";
import { GetActivityRequestSchema } from "../../../src/gen/jobgate/v1/operator_pb.ts";
import { countActivity } from "../../../src/parts/operator/activity.ts";
import { History } from "../../../src/parts/operator/history.ts";
import { countingTelemetry } from "../../helpers/counting-telemetry.ts";

const MINUTE = 60_000;

/** Activity of a process that acks one JobCall each minute, at minute 1000 and later. */
function startActivity() {
  const telemetry = countingTelemetry();
  let now = 1_000 * MINUTE;
  const { counters } = telemetry;
  const history = new History({ events: new EventHub(), counters, clock: () => now });
  return {
    passMinutes(count: number) {
      for (let minute = 0; minute < count; minute++) {
        telemetry.count("jobgate_jobcalls_acked_total", {});
        now += MINUTE;
        history.sample();
      }
    },
    acks(request: { since?: number; bucket?: number } = {}) {
      const since = request.since === undefined ? {} : { since: timestampFromMs(request.since * MINUTE) };
      const bucket = request.bucket === undefined ? {} : { bucket: durationFromMs(request.bucket * MINUTE) };
      const message = create(GetActivityRequestSchema, { ...since, ...bucket });
      const { activity } = countActivity(message, history.samples());
      return activity.map(({ from, acked }) => [timestampMs(from) / MINUTE, Number(acked)]);
    },
  };
}

test("Counts are in the bucket of their minute, from the start of the process on", () => {
  const { passMinutes, acks } = startActivity();
  expect(acks()).toEqual([[1_000, 0]]);
  passMinutes(7);
  expect(acks()).toEqual([
    [1_000, 5],
    [1_005, 2],
  ]);
  expect(acks({ since: 1_003, bucket: 2 })).toEqual([
    [1_002, 2],
    [1_004, 2],
    [1_006, 1],
  ]);
});

test("A day is kept", () => {
  const { passMinutes, acks } = startActivity();
  passMinutes(25 * 60);
  const kept = acks({ bucket: 60 });
  expect(kept).toHaveLength(25);
  expect(kept.reduce((sum, [, acked = 0]) => sum + acked, 0)).toBe(24 * 60);
});

test("Refuses buckets that are not a whole number of minutes", () => {
  const { acks } = startActivity();
  for (const bucket of [0, 0.5, 1.5]) expect(() => acks({ bucket })).toThrow("whole number of minutes");
});
