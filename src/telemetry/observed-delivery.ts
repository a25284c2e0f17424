import type { Clock } from "../core/clock.ts";
import type { DeliveryObserver } from "../delivery/dispatcher.ts";
import { decodeJobCall } from "../delivery/job-call-codec.ts";
import type { ClaimedCall } from "../store/contract/work-queue.ts";
import type { Telemetry } from "./telemetry.ts";
import type { Tracing } from "./tracing.ts";

const ignore = () => undefined;

/** Counts deliveries, and with traces on makes each a span of the trace in which its JobCall was accepted. */
export function observeDelivery(telemetry: Telemetry, clock: Clock): DeliveryObserver {
  const { tracing } = telemetry;
  return {
    delivering(call, subscriber) {
      const { attempt, enqueuedAt } = call;
      telemetry.count("jobgate_deliveries_total", { attempt: attempt === 1 ? "first" : "again" });
      if (attempt === 1) {
        const delaySecs = Math.max(0, clock() - enqueuedAt) / 1000;
        telemetry.observe("jobgate_first_delivery_delay_seconds", {}, delaySecs);
      }
      return tracing === undefined ? ignore : traceDelivery(tracing, call, subscriber);
    },
    leaseExpired: () => telemetry.count("jobgate_leases_expired_total", {}),
  };
}

/** The JobCall may have been accepted by another process, long ago: what it brought along says in which trace. */
function traceDelivery(tracing: Tracing, call: ClaimedCall, subscriber: string): () => void {
  const { callId, attempt } = call;
  const { jobId, metadata } = decodeJobCall(call.encoded);
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
