import type { Clock } from "../core/clock.ts";
import type { EventHub, EventKind } from "../core/events.ts";
import type { ClaimedCall } from "../store/contract/work-queue.ts";
import type { Telemetry } from "./telemetry.ts";
import type { Tracing } from "./tracing.ts";

/** Events that are counted. `accepted` and `delivered` are left out: making them for every JobCall costs too much. */
const COUNTED = [
  "acked",
  "retried",
  "deadLettered",
  "dropped",
  "paymentDecided",
] as const satisfies EventKind[];

/** Counts the events of this process. @returns a function that ends the subscription */
export function countEvents(events: EventHub, telemetry: Telemetry): () => void {
  return events.subscribe(({ what }) => {
    switch (what.kind) {
      case "acked":
        return telemetry.count("jobgate_jobcalls_acked_total", {});
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
      case "accepted":
      case "delivered":
      case "progressed":
        return;
    }
  }, COUNTED);
}

/** Returns a listener that records the size and the duration of each batch that the store commits. */
export function measureBatches(telemetry: Telemetry) {
  return (batch: {
    readonly operations: number;
    readonly durationMs: number;
    readonly committed: boolean;
  }): void => {
    const { operations, durationMs, committed } = batch;
    const outcome = committed ? "committed" : "failed";
    telemetry.observe("jobgate_store_commit_duration_seconds", { outcome }, durationMs / 1000);
    telemetry.observe("jobgate_store_commit_operations", {}, operations);
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

  constructor(telemetry: Telemetry, decode: JobCallDecoder, clock: Clock) {
    this.#telemetry = telemetry;
    this.#decode = decode;
    this.#clock = clock;
  }

  /** @returns a function that ends the span once the JobCall is written to its stream */
  delivering(call: ClaimedCall, subscriber: string): () => void {
    const { attempt, enqueuedAt } = call;
    this.#telemetry.count("jobgate_deliveries_total", { attempt: attempt === 1 ? "first" : "again" });
    if (attempt === 1) {
      const delaySecs = Math.max(0, this.#clock() - enqueuedAt) / 1000;
      this.#telemetry.observe("jobgate_first_delivery_delay_seconds", {}, delaySecs);
    }
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
