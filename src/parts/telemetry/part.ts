import { systemClock } from "../../core/clock.ts";
import type { Part } from "../../part.ts";
import { countEvents } from "./count-events.ts";
import { ProcessTelemetry } from "./process-telemetry.ts";
import { startTracing } from "./start-tracing.ts";

/** Metrics for Prometheus, and traces with OpenTelemetry. */
export const part: Part = {
  async telemetry(logger) {
    const telemetry = new ProcessTelemetry(await startTracing(logger));
    return {
      telemetry,
      async load() {
        const [{ collectMetrics }, { metricsRoutes }] = await Promise.all([
          import("./collectors.ts"),
          import("./metrics-routes.ts"),
        ]);
        return ({ store, events, runners, rates, additions }) => {
          const registry = collectMetrics({
            store,
            runners,
            rates,
            gauges: () => additions("gauges").flatMap((read) => read()),
            clock: systemClock,
          });
          telemetry.addTo(registry);
          const stopCounting = countEvents(events, telemetry);
          return {
            operator: { routes: metricsRoutes(registry) },
            stop: async () => stopCounting(),
          };
        };
      },
      stop: () => telemetry.stop(),
    };
  },
};
