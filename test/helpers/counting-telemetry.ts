import type { CounterReader } from "../../src/core/instruments.ts";
import { NO_TELEMETRY, type Telemetry } from "../../src/core/telemetry.ts";

/** Returns a telemetry that keeps what it counts, and discards the rest. */
export function countingTelemetry(): Telemetry {
  const counts = new Map<string, Map<string, { readonly labels: object; value: number }>>();
  const seriesOf = (name: string, labels: object) => {
    const series = counts.get(name) ?? new Map<string, { readonly labels: object; value: number }>();
    counts.set(name, series);
    const key = JSON.stringify(labels);
    const one = series.get(key) ?? { labels, value: 0 };
    series.set(key, one);
    return one;
  };
  const counter: Telemetry["counter"] = (name, labels) => ({
    add(by) {
      seriesOf(name, labels).value += by;
    },
  });
  return {
    ...NO_TELEMETRY,
    counter,
    count: (name, labels, by = 1) => counter(name, labels).add(by),
    counters: ((name) => [...(counts.get(name)?.values() ?? [])]) as CounterReader,
  };
}
