import type { EventHub, EventKind } from "../../core/events.ts";
import type { Counter, Telemetry } from "../../core/telemetry.ts";

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
