import type { EventHub, EventKind } from "../core/events.ts";
import type { Telemetry } from "./telemetry.ts";

/** What is counted here. What happens to every JobCall that is accepted or dealt is not: making those events costs more. */
const KINDS = [
  "acked",
  "retried",
  "deadLettered",
  "dropped",
  "paymentDecided",
] as const satisfies EventKind[];

/** Counts what happens in this process. @returns a function that ends it */
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
  }, KINDS);
}
