import { Counter, Histogram, type Registry } from "prom-client";
import {
  COUNTERS,
  type CounterLabels,
  type CounterName,
  HISTOGRAMS,
  type HistogramLabels,
  type HistogramName,
} from "./instruments.ts";
import type { Telemetry } from "./telemetry.ts";
import type { Tracing } from "./tracing.ts";

/** Interval of the timer whose lateness is jobgate_event_loop_delay_seconds. */
const EVENT_LOOP_INTERVAL_MS = 50;

/** Telemetry of the whole process: counters and histograms in memory, and traces if they are on. */
export class ProcessTelemetry implements Telemetry {
  readonly tracing: Tracing | undefined;
  readonly #counters = counters();
  readonly #histograms = histograms();
  readonly #eventLoopTimer: NodeJS.Timeout;

  constructor(tracing?: Tracing) {
    this.tracing = tracing;
    this.#eventLoopTimer = this.#watchEventLoop();
  }

  count<Name extends CounterName>(name: Name, labels: CounterLabels<Name>, by = 1): void {
    this.#counters[name].inc(labels, by);
  }

  observe<Name extends HistogramName>(name: Name, labels: HistogramLabels<Name>, value: number): void {
    this.#histograms[name].observe(labels, value);
  }

  /** Adds every counter and histogram to the registry. */
  addTo(registry: Registry): void {
    for (const metric of Object.values(this.#counters)) registry.registerMetric(metric);
    for (const metric of Object.values(this.#histograms)) registry.registerMetric(metric);
  }

  /** Sends the remaining traces. Takes a few seconds at most, and never rejects. */
  async stop(): Promise<void> {
    clearInterval(this.#eventLoopTimer);
    await this.tracing?.stop();
  }

  /** Node has a histogram of its own, but its quantiles cannot be added up over time or over processes. */
  #watchEventLoop(): NodeJS.Timeout {
    let due = performance.now() + EVENT_LOOP_INTERVAL_MS;
    return setInterval(() => {
      const now = performance.now();
      this.observe("jobgate_event_loop_delay_seconds", {}, Math.max(0, now - due) / 1000);
      due = now + EVENT_LOOP_INTERVAL_MS;
    }, EVENT_LOOP_INTERVAL_MS).unref();
  }
}

function counters(): Record<CounterName, Counter> {
  const entries = Object.entries(COUNTERS).map(([name, { help, labels }]) => [
    name,
    new Counter({ name, help, labelNames: [...labels], registers: [] }),
  ]);
  return Object.fromEntries(entries) as Record<CounterName, Counter>;
}

function histograms(): Record<HistogramName, Histogram> {
  const entries = Object.entries(HISTOGRAMS).map(([name, { help, labels, buckets }]) => [
    name,
    new Histogram({ name, help, labelNames: [...labels], buckets: [...buckets], registers: [] }),
  ]);
  return Object.fromEntries(entries) as Record<HistogramName, Histogram>;
}
