import { Gauge } from "prom-client";
import type { RunnerReport } from "../delivery/subscription.ts";
import type { MetricsCollector } from "./metrics.ts";

/** The runners that are connected to this process, as they are when the metrics are read. */
export function runnerMetrics(runners: () => readonly RunnerReport[]): MetricsCollector {
  return (registry) => {
    const gauge = (name: string, help: string, read: () => number) =>
      new Gauge({
        name,
        help,
        registers: [registry],
        collect() {
          this.set(read());
        },
      });
    gauge("jobgate_runner_streams", "Subscribe streams that are open.", () => runners().length);
    gauge("jobgate_runner_in_flight", "JobCalls out on these streams and not finished.", () =>
      runners().reduce((sum, { inFlight }) => sum + inFlight, 0),
    );
  };
}
