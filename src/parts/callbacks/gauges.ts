import type { OwnGauge } from "../../part.ts";
import type { CallbackCounts } from "./store/ledger.ts";

/** Gauges of the callbacks in the store. */
export const CALLBACK_GAUGES: readonly OwnGauge[] = [
  {
    name: "jobgate_callbacks",
    help: "Callbacks, by state; ended ones for a week.",
    labels: ["state"],
    read: (totals) =>
      Object.entries(countsIn(totals)?.states ?? {}).map(([state, callbacks]) => [callbacks, { state }]),
  },
  {
    name: "jobgate_callbacks_oldest_age_seconds",
    help: "Age of the oldest callback that is pending; 0 if none is.",
    labels: [],
    read(totals, now) {
      const counts = countsIn(totals);
      return counts === undefined ? [] : [[Math.max(0, now - (counts.oldestAt ?? now)) / 1_000, {}]];
    },
  },
];

function countsIn(totals: Parameters<OwnGauge["read"]>[0]): CallbackCounts | undefined {
  return totals?.sums.callbacks as CallbackCounts | undefined;
}
