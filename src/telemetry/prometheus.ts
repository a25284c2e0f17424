import { Counter, Histogram, type Registry } from "prom-client";
import { COUNTERS, type CounterName, HISTOGRAMS, type HistogramName } from "./instruments.ts";
import type { Telemetry } from "./telemetry.ts";

/** How late timers fire is looked at this often. */
const EVENT_LOOP_EVERY_MS = 50;

export interface PrometheusTelemetry extends Pick<Telemetry, "count" | "observe"> {
  /** Makes everything that is counted and measured part of what the registry tells. */
  addTo(registry: Registry): void;
  stop(): void;
}

/** Keeps what it is told in this process's memory, for whoever reads the registry. */
export function createPrometheusTelemetry(): PrometheusTelemetry {
  const counters = Object.fromEntries(
    Object.entries(COUNTERS).map(([name, { help, labels }]) => [
      name,
      new Counter({ name, help, labelNames: [...labels], registers: [] }),
    ]),
  ) as Record<CounterName, Counter>;
  const histograms = Object.fromEntries(
    Object.entries(HISTOGRAMS).map(([name, { help, labels, buckets }]) => [
      name,
      new Histogram({ name, help, labelNames: [...labels], buckets: [...buckets], registers: [] }),
    ]),
  ) as Record<HistogramName, Histogram>;
  const stop = watchEventLoop((seconds) => histograms.jobgate_event_loop_delay_seconds.observe(seconds));

  return {
    count: (name, labels, by = 1) => counters[name].inc(labels, by),
    observe: (name, labels, value) => histograms[name].observe(labels, value),
    addTo(registry) {
      for (const metric of Object.values(counters)) registry.registerMetric(metric);
      for (const metric of Object.values(histograms)) registry.registerMetric(metric);
    },
    stop,
  };
}

/** Not Node's own histogram of it, whose quantiles cannot be added up over time or processes. */
function watchEventLoop(tell: (delaySeconds: number) => void): () => void {
  let due = performance.now() + EVENT_LOOP_EVERY_MS;
  const timer = setInterval(() => {
    const now = performance.now();
    tell(Math.max(0, now - due) / 1000);
    due = now + EVENT_LOOP_EVERY_MS;
  }, EVENT_LOOP_EVERY_MS).unref();
  return () => clearInterval(timer);
}
