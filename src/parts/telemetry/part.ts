import { systemClock } from "../../core/clock.ts";
import type { Part } from "../../part.ts";

/** Metrics for Prometheus, and traces with OpenTelemetry. */
export const part: Part = {
  paths: { operator: ["/metrics"] },
  async telemetry(logger) {
    // The modules are loaded late, because every command that reads a configuration loads this file.
    const [{ countEvents, ProcessTelemetry }, { startTracing }] = await Promise.all([
      import("./process-telemetry.ts"),
      import("./start-tracing.ts"),
    ]);
    const telemetry = new ProcessTelemetry(await startTracing(logger));
    return {
      telemetry,
      async load() {
        const [{ cachedTotals, collectMetrics, collectOwn }, { metricsRoutes }] = await Promise.all([
          import("./collectors.ts"),
          import("./metrics-routes.ts"),
        ]);
        return ({ store, events, runners, rates, additions }) => {
          const measured = { status: () => store.status(), totals: cachedTotals(() => store.totals()) };
          const registry = collectMetrics({
            store: measured,
            runners,
            rates,
            gauges: () => additions("gauges").flatMap((read) => read()),
            clock: systemClock,
          });
          telemetry.addTo(registry);
          const stopCounting = countEvents(events, telemetry);
          return {
            operator: { routes: metricsRoutes(registry) },
            start: async () => collectOwn(registry, additions("ownGauges").flat(), measured, systemClock),
            stop: async () => stopCounting(),
          };
        };
      },
      stop: () => telemetry.stop(),
    };
  },
};
