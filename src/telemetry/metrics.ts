import { collectDefaultMetrics, Gauge, Registry } from "prom-client";
import { version } from "../node/version.ts";

/** Adds metrics to a registry; each is read when the registry is. */
export type MetricsCollector = (registry: Registry) => void;

/** The metrics of this process: Node's own, which jobgate it is, and what the collectors add. */
export function createMetrics(collectors: readonly MetricsCollector[]): Registry {
  const registry = new Registry();
  for (const collect of [collectDefaults, collectBuildInfo, ...collectors]) collect(registry);
  return registry;
}

/**
 * Gauges with a counter's name, to which `promtool check metrics` objects: the same by type have none. And Node's view of
 * the event loop, which begins anew with every reading, whoever reads: jobgate_event_loop_delay_seconds adds up.
 */
const LEFT_OUT = /^nodejs_(active_\w+_total|eventloop_lag_\w+)$/;

const collectDefaults: MetricsCollector = (register) => {
  collectDefaultMetrics({ register });
  for (const { name } of register.getMetricsAsArray())
    if (LEFT_OUT.test(name)) register.removeSingleMetric(name);
};

const collectBuildInfo: MetricsCollector = (registry) => {
  new Gauge({
    name: "jobgate_build_info",
    help: "Always 1; the version of jobgate is its label.",
    labelNames: ["version"],
    registers: [registry],
  }).set({ version }, 1);
};
