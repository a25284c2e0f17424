import type { GaugeValue, OwnGauge } from "../../part.ts";
import type { CallbackCounts } from "./store/ledger.ts";

/** Gauges of the callbacks in the store. */
export const CALLBACK_GAUGES: readonly OwnGauge[] = [
  {
    name: "jobgate_callbacks",
    help: "Callbacks, by state. Callbacks that ended are counted for a week.",
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

/** Counts the callbacks that this process tried. */
export class CallbackTries {
  readonly #values = new Map<string, GaugeValue>();
  readonly counter: OwnGauge = {
    name: "jobgate_callbacks_total",
    help: "Callbacks that this process sent, that failed and are tried again, or that were given up (dead).",
    labels: ["event", "outcome"],
    isCounter: true,
    read: () => [...this.#values.values()],
  };

  count(event: string, outcome: "sent" | "failed" | "dead"): void {
    const key = `${event} ${outcome}`;
    const [before] = this.#values.get(key) ?? [0];
    this.#values.set(key, [before + 1, { event, outcome }]);
  }
}

function countsIn(totals: Parameters<OwnGauge["read"]>[0]): CallbackCounts | undefined {
  return totals?.sums.callbacks as CallbackCounts | undefined;
}
