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

const collectDefaults: MetricsCollector = (register) => collectDefaultMetrics({ register });

const collectBuildInfo: MetricsCollector = (registry) => {
  new Gauge({
    name: "jobgate_build_info",
    help: "Always 1; the version of jobgate is its label.",
    labelNames: ["version"],
    registers: [registry],
  }).set({ version }, 1);
};
