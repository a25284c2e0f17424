import type { Clock } from "../core/clock.ts";
import type { Counter, Histogram, Telemetry, Tracing } from "../core/telemetry.ts";
import type { ClaimedCall } from "../store/contract/work-queue.ts";

/** Observes deliveries to runners. Its methods must be quick and must not throw. */
export interface DeliveryObserver {
  /** @returns a function that is called once the JobCall is written, and is not called if its stream ends first */
  delivering(call: ClaimedCall, subscriber: string): () => void;
  leaseExpired(): void;
}

/** Decodes the stored bytes of a JobCall. */
type JobCallDecoder = (encoded: Uint8Array) => {
  readonly jobId: bigint;
  readonly metadata: Readonly<Record<string, string>>;
};

/** Counts deliveries and, if traces are on, makes each delivery a span. */
export class DeliveryTelemetry implements DeliveryObserver {
  readonly #telemetry: Telemetry;
  readonly #decode: JobCallDecoder;
  readonly #clock: Clock;
  readonly #firstDeliveries: Counter;
  readonly #furtherDeliveries: Counter;
  readonly #firstDelay: Histogram;

  constructor(parts: {
    readonly telemetry: Telemetry;
    readonly decode: JobCallDecoder;
    readonly clock: Clock;
  }) {
    const { telemetry } = parts;
    this.#telemetry = telemetry;
    this.#decode = parts.decode;
    this.#clock = parts.clock;
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

  /** Continues the trace named in the metadata, because another process may have accepted the JobCall, long ago. */
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
