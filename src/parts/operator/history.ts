import type { Clock } from "../../core/clock.ts";
import type { EventHub, GatewayEvent } from "../../core/events.ts";
import type { CounterName, CounterReader } from "../../core/instruments.ts";

/** Most events that are kept for later readers. */
const MAX_EVENTS = 500;
const SAMPLE_MS = 60_000;
const KEPT_MS = 24 * 60 * 60_000;

/** Events that the activity of a process counts. */
export const ACTIVITIES = ["accepted", "acked", "retried", "deadLettered", "refused"] as const;

/** Counters of this process at a time, Unix milliseconds. */
export interface Sample {
  readonly at: number;
  readonly counts: Readonly<Record<(typeof ACTIVITIES)[number], number>>;
}

/**
 * The latest events and the counters of a day. The API shows them for the time before its first call, which loads the
 * API.
 */
export class History {
  readonly startedAt: number;
  readonly #counters: CounterReader;
  readonly #clock: Clock;
  readonly #timer: NodeJS.Timeout;
  #samples: readonly Sample[];
  /** Ring of the latest events; the oldest is at `#next`. */
  readonly #events: GatewayEvent[] = [];
  #next = 0;

  constructor(sources: {
    readonly events: EventHub;
    readonly counters: CounterReader;
    readonly clock: Clock;
  }) {
    this.#counters = sources.counters;
    this.#clock = sources.clock;
    this.startedAt = this.#clock();
    this.#samples = [this.#read()];
    this.#timer = setInterval(() => this.sample(), SAMPLE_MS).unref();
    sources.events.subscribe((event) => {
      this.#events[this.#next] = event;
      this.#next = (this.#next + 1) % MAX_EVENTS;
    });
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Keeps a sample of the counters. The process calls this method once a minute. */
  sample(): void {
    const last = this.#read();
    this.#samples = [...this.#samples.filter(({ at }) => at >= last.at - KEPT_MS), last];
  }

  /** Samples since the start of the process, at most of the last day. The last sample is taken now. */
  samples(): readonly Sample[] {
    return [...this.#samples, this.#read()];
  }

  /** Returns the latest events, the earliest first. */
  latest(count: number): readonly GatewayEvent[] {
    const events = [...this.#events.slice(this.#next), ...this.#events.slice(0, this.#next)];
    return events.slice(Math.max(0, events.length - count));
  }

  #read(): Sample {
    const sum = (name: CounterName) => this.#counters(name).reduce((total, { value }) => total + value, 0);
    const refused = this.#counters("jobgate_http_requests_total").reduce(
      (total, { labels: { listener, error }, value }) =>
        (listener === "x402" || listener === "webhooks") && error !== "" && error !== "payment_required"
          ? total + value
          : total,
      0,
    );
    return {
      at: this.#clock(),
      counts: {
        accepted: sum("jobgate_jobcalls_accepted_total"),
        acked: sum("jobgate_jobcalls_acked_total"),
        retried: sum("jobgate_jobcalls_retried_total"),
        deadLettered: sum("jobgate_jobcalls_dead_lettered_total"),
        refused,
      },
    };
  }
}
