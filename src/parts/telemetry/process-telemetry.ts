import type { Registry } from "prom-client";
import type { EventHub, EventKind } from "../../core/events.ts";
import {
  COUNTERS,
  type CounterLabels,
  type CounterName,
  type CounterReader,
  HISTOGRAMS,
  type HistogramLabels,
  type HistogramName,
  type HistogramReader,
} from "../../core/instruments.ts";
import type { Counter, Histogram, Telemetry, Tracing } from "../../core/telemetry.ts";
import { counterFamily, histogramFamily } from "./metrics.ts";

/** Interval of the timer whose lateness is jobgate_event_loop_delay_seconds. */
const EVENT_LOOP_INTERVAL_MS = 50;

/** Telemetry of the whole process: counters and histograms in memory, and traces if they are on. */
export class ProcessTelemetry implements Telemetry {
  readonly tracing: Tracing | undefined;
  readonly #counters = familiesOf(COUNTERS, counterFamily);
  readonly #histograms = familiesOf(HISTOGRAMS, histogramFamily);
  readonly #eventLoopTimer: NodeJS.Timeout;

  constructor(tracing?: Tracing) {
    this.tracing = tracing;
    this.#eventLoopTimer = this.#watchEventLoop();
  }

  counter<Name extends CounterName>(name: Name, labels: CounterLabels<Name>): Counter {
    return this.#counters[name].seriesOf(labels);
  }

  histogram<Name extends HistogramName>(name: Name, labels: HistogramLabels<Name>): Histogram {
    return this.#histograms[name].seriesOf(labels);
  }

  count<Name extends CounterName>(name: Name, labels: CounterLabels<Name>, by = 1): void {
    this.counter(name, labels).add(by);
  }

  observe<Name extends HistogramName>(name: Name, labels: HistogramLabels<Name>, value: number): void {
    this.histogram(name, labels).observe(value);
  }

  /** Reads all series of a counter. */
  readonly counters: CounterReader = (name) =>
    this.#counters[name].all().map(({ labels, series }) => ({
      labels: labels as CounterLabels<typeof name>,
      value: series.value,
    }));

  /** Reads all series of a histogram. */
  readonly histograms: HistogramReader = (name) =>
    this.#histograms[name].all().map(({ labels, series }) => ({
      labels: labels as HistogramLabels<typeof name>,
      counts: series.counts,
    }));

  /** Adds every counter and histogram to the registry. */
  addTo(registry: Registry): void {
    for (const family of Object.values(this.#counters)) family.addTo(registry);
    for (const family of Object.values(this.#histograms)) family.addTo(registry);
  }

  /** Sends the remaining traces. Takes a few seconds at most, and never rejects. */
  async stop(): Promise<void> {
    clearInterval(this.#eventLoopTimer);
    await this.tracing?.stop();
  }

  /** Node has a histogram of its own, but its quantiles cannot be added up over time or over processes. */
  #watchEventLoop(): NodeJS.Timeout {
    let due = performance.now() + EVENT_LOOP_INTERVAL_MS;
    const delay = this.histogram("jobgate_event_loop_delay_seconds", {});
    return setInterval(() => {
      const now = performance.now();
      delay.observe(Math.max(0, now - due) / 1000);
      due = now + EVENT_LOOP_INTERVAL_MS;
    }, EVENT_LOOP_INTERVAL_MS).unref();
  }
}

function familiesOf<Name extends string, Of, Family>(
  instruments: Readonly<Record<Name, Of>>,
  familyOf: (name: string, instrument: Of) => Family,
): Record<Name, Family> {
  const entries = Object.entries<Of>(instruments).map(([name, instrument]) => [
    name,
    familyOf(name, instrument),
  ]);
  return Object.fromEntries(entries) as Record<Name, Family>;
}

/** Events that are counted. */
const COUNTED = [
  "accepted",
  "acked",
  "retried",
  "deadLettered",
  "dropped",
  "paymentDecided",
] as const satisfies EventKind[];

/** Counts the events of this process. @returns a function that ends the subscription */
export function countEvents(events: EventHub, telemetry: Telemetry): () => void {
  const acked = telemetry.counter("jobgate_jobcalls_acked_total", {});
  const accepted = new Map<string, Counter>();
  return events.subscribe(({ what }) => {
    switch (what.kind) {
      case "accepted": {
        const { origin, serviceId, jobId } = what;
        const key = `${origin}/${serviceId}/${jobId}`;
        let counter = accepted.get(key);
        if (counter === undefined) {
          const job = { service_id: String(serviceId), job_id: String(jobId) };
          counter = telemetry.counter("jobgate_jobcalls_accepted_total", { origin, ...job });
          accepted.set(key, counter);
        }
        return counter.add(1);
      }
      case "acked":
        return acked.add(1);
      case "retried":
        return telemetry.count("jobgate_jobcalls_retried_total", {});
      case "deadLettered":
        return telemetry.count("jobgate_jobcalls_dead_lettered_total", {});
      case "dropped":
        return telemetry.count("jobgate_jobcalls_dropped_total", {});
      case "paymentDecided": {
        const { state, network, symbol, asset, amount } = what;
        telemetry.count("jobgate_payments_total", { state, network, symbol });
        if (state !== "settled") return;
        return telemetry.count("jobgate_payment_amount_total", { network, symbol, asset }, Number(amount));
      }
      case "delivered":
      case "progressed":
      case "paymentBegun":
      case "partChanged":
        return;
    }
  }, COUNTED);
}
