import type { Clock } from "../core/clock.ts";
import type { EventHub, EventKind } from "../core/events.ts";
import type { ClaimedCall } from "../store/contract/work-queue.ts";
import type { Counter, Histogram, Telemetry } from "./telemetry.ts";
import type { Tracing } from "./tracing.ts";

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
      case "refundChanged":
        return;
    }
  }, COUNTED);
}

/** Returns a listener that records the size and the duration of each batch that the store commits. */
export function measureBatches(telemetry: Telemetry) {
  const durationOf = (outcome: string) =>
    telemetry.histogram("jobgate_store_commit_duration_seconds", { outcome });
  const [committedIn, failedIn] = [durationOf("committed"), durationOf("failed")];
  const sizes = telemetry.histogram("jobgate_store_commit_operations", {});
  return (batch: {
    readonly operations: number;
    readonly durationMs: number;
    readonly committed: boolean;
  }): void => {
    const { operations, durationMs, committed } = batch;
    (committed ? committedIn : failedIn).observe(durationMs / 1000);
    sizes.observe(operations);
  };
}

/** Decodes the stored bytes of a JobCall. */
type JobCallDecoder = (encoded: Uint8Array) => {
  readonly jobId: bigint;
  readonly metadata: Readonly<Record<string, string>>;
};

/** Counts deliveries and, if traces are on, makes each one a span. */
export class DeliveryTelemetry {
  readonly #telemetry: Telemetry;
  readonly #decode: JobCallDecoder;
  readonly #clock: Clock;
  readonly #firstDeliveries: Counter;
  readonly #furtherDeliveries: Counter;
  readonly #firstDelay: Histogram;

  constructor(telemetry: Telemetry, decode: JobCallDecoder, clock: Clock) {
    this.#telemetry = telemetry;
    this.#decode = decode;
    this.#clock = clock;
    this.#firstDeliveries = telemetry.counter("jobgate_deliveries_total", { attempt: "first" });
    this.#furtherDeliveries = telemetry.counter("jobgate_deliveries_total", { attempt: "again" });
    this.#firstDelay = telemetry.histogram("jobgate_first_delivery_delay_seconds", {});
  }

  /** @returns a function that ends the span once the JobCall is written to its stream */
  delivering(call: ClaimedCall, subscriber: string): () => void {
    const { attempt, enqueuedAt } = call;
    if (attempt === 1) {
      this.#firstDeliveries.add(1);
      this.#firstDelay.observe(Math.max(0, this.#clock() - enqueuedAt) / 1000);
    } else this.#furtherDeliveries.add(1);
    const { tracing } = this.#telemetry;
    return tracing === undefined ? () => undefined : this.#trace(tracing, call, subscriber);
  }

  leaseExpired(): void {
    this.#telemetry.count("jobgate_leases_expired_total", {});
  }

  /** Continues the trace named in the metadata: another process may have accepted the JobCall, long ago. */
  #trace(tracing: Tracing, { callId, attempt, encoded }: ClaimedCall, subscriber: string): () => void {
    const { jobId, metadata } = this.#decode(encoded);
    const span = tracing.begin({
      name: "jobcall.deliver",
      kind: "producer",
      carrier: metadata,
      linked: true,
      attributes: {
        "jobgate.call_id": callId,
        "jobgate.job_id": jobId.toString(),
        "jobgate.attempt": attempt,
        "jobgate.subscriber": subscriber,
      },
    });
    return () => span.end();
  }
}
