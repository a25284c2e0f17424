import { collectDefaultMetrics, Gauge, Registry } from "prom-client";
import { version } from "../version.ts";

/** Adds metrics to a registry; each is read when the registry is. */
export type MetricsCollector = (registry: Registry) => void;

/** The metrics of this process: Node's own, which jobgate it is, and what the collectors add. */
export function createMetrics(collectors: readonly MetricsCollector[]): Registry {
  const registry = new Registry();
  for (const collect of [collectDefaults, collectBuildInfo, ...collectors]) collect(registry);
  return registry;
}

/** Gauges with a counter's name: `promtool check metrics` objects to them, and the same by type has no `_total`. */
const MISNAMED = [
  "nodejs_active_handles_total",
  "nodejs_active_requests_total",
  "nodejs_active_resources_total",
];

const collectDefaults: MetricsCollector = (register) => {
  collectDefaultMetrics({ register });
  for (const name of MISNAMED) register.removeSingleMetric(name);
};

const collectBuildInfo: MetricsCollector = (registry) => {
  new Gauge({
    name: "jobgate_build_info",
    help: "Always 1; the version of jobgate is its label.",
    labelNames: ["version"],
    registers: [registry],
  }).set({ version }, 1);
};
