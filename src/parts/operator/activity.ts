import { durationMs, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { Clock } from "../../core/clock.ts";
import type { CounterName, CounterReader } from "../../core/instruments.ts";
import type { GetActivityRequest } from "../../gen/jobgate/v1/operator_pb.ts";
import { invalid } from "../../operator/requests.ts";
import { bigints } from "./messages.ts";

const MINUTE_MS = 60_000;
const KEPT_MS = 24 * 60 * MINUTE_MS;
const DEFAULT_BUCKET_MS = 5 * MINUTE_MS;

const KINDS = ["accepted", "acked", "retried", "deadLettered", "refused"] as const;
type Counts = Readonly<Record<(typeof KINDS)[number], number>>;

/** Counters of this process at a time, Unix milliseconds. */
interface Sample {
  readonly at: number;
  readonly counts: Counts;
}

/** Samples of this process's counters: one a minute, kept for a day. What it did is the difference between two. */
export class Activity {
  readonly #counters: CounterReader;
  readonly #clock: Clock;
  readonly #timer: NodeJS.Timeout;
  #samples: Sample[];

  constructor(counters: CounterReader, clock: Clock) {
    this.#counters = counters;
    this.#clock = clock;
    this.#samples = [this.#read()];
    this.#timer = setInterval(() => this.sample(), MINUTE_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  sample(): void {
    const last = this.#read();
    this.#samples = [...this.#samples.filter(({ at }) => at >= last.at - KEPT_MS), last];
  }

  /** @throws ConnectError INVALID_ARGUMENT for a bucket that is not a whole number of minutes */
  answer({ since, bucket }: GetActivityRequest) {
    const bucketMs = bucket === undefined ? DEFAULT_BUCKET_MS : durationMs(bucket);
    if (bucketMs < MINUTE_MS || bucketMs % MINUTE_MS !== 0)
      throw invalid("bucket: expected a whole number of minutes.");
    const startOf = (at: number) => Math.floor(at / bucketMs) * bucketMs;
    const samples = [...this.#samples, this.#read()];
    const from = Math.max(samples[0]?.at ?? 0, since === undefined ? 0 : timestampMs(since));
    const buckets = new Map<number, Record<keyof Counts, number>>();
    for (let at = startOf(from); at <= this.#clock(); at += bucketMs) buckets.set(at, zeros());
    for (const [index, { at, counts }] of samples.entries()) {
      const found = buckets.get(startOf(at));
      const next = samples[index + 1];
      if (found === undefined || next === undefined) continue;
      for (const kind of KINDS) found[kind] += next.counts[kind] - counts[kind];
    }
    return {
      activity: [...buckets].map(([at, counts]) => ({ from: timestampFromMs(at), ...bigints(counts) })),
    };
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

function zeros(): Record<keyof Counts, number> {
  return { accepted: 0, acked: 0, retried: 0, deadLettered: 0, refused: 0 };
}
