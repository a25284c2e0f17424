import type { Logger } from "pino";
import type { Registry } from "prom-client";
import { createPrometheusTelemetry } from "./prometheus.ts";
import { startTracing } from "./start-tracing.ts";
import type { Telemetry } from "./telemetry.ts";

/** The whole process's telemetry: metrics always, traces if the environment asks for them. */
export interface ProcessTelemetry extends Telemetry {
  /** Makes what is counted and measured part of what the registry tells. */
  addTo(registry: Registry): void;
  /** Sends the traces that have not been sent. Takes a few seconds at most, and never rejects. */
  stop(): Promise<void>;
}

export async function startTelemetry(logger: Logger): Promise<ProcessTelemetry> {
  const tracing = await startTracing(logger);
  const prometheus = createPrometheusTelemetry();
  return {
    ...prometheus,
    ...(tracing === undefined ? {} : { tracing }),
    async stop() {
      prometheus.stop();
      await tracing?.stop();
    },
  };
}
