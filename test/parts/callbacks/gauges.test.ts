import { expect, test } from "vitest";
import { CALLBACK_GAUGES } from "../../../src/parts/callbacks/gauges.ts";
import type { StoreTotals } from "../../../src/store/store.ts";

const NOW = 1_900_000_000_000;

function read(callbacks: object | undefined) {
  const totals = callbacks && ({ sums: { callbacks } } as unknown as StoreTotals);
  return Object.fromEntries(CALLBACK_GAUGES.map((gauge) => [gauge.name, gauge.read(totals, NOW)]));
}

test("Callbacks are counted by state, with the age of the oldest pending one in seconds", () => {
  const states = { pending: 2, sent: 0, dead: 1 };
  expect(read({ states, oldestAt: NOW - 30_000 })).toEqual({
    jobgate_callbacks: [
      [2, { state: "pending" }],
      [0, { state: "sent" }],
      [1, { state: "dead" }],
    ],
    jobgate_callbacks_oldest_age_seconds: [[30, {}]],
  });
  expect(read({ states }).jobgate_callbacks_oldest_age_seconds).toEqual([[0, {}]]);
  // The clocks of two machines differ.
  expect(read({ states, oldestAt: NOW + 5 }).jobgate_callbacks_oldest_age_seconds).toEqual([[0, {}]]);
});

test("A store that does not answer has no count of callbacks", () => {
  expect(read(undefined)).toEqual({ jobgate_callbacks: [], jobgate_callbacks_oldest_age_seconds: [] });
});
