import type { Logger } from "pino";
import type { Tracing } from "../../core/telemetry.ts";
import type { TraceExporterName } from "./open-telemetry.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Starts traces if the environment asks for them. Loads the SDK only then, because it costs memory and start-up time.
 * @returns undefined when traces are off
 */
export async function startTracing(
  logger: Logger,
  env: Environment = process.env,
): Promise<Tracing | undefined> {
  const { exporters, unknown } = traceExporters(env);
  if (unknown.length > 0)
    logger.warn(
      { unknown },
      "OTEL_TRACES_EXPORTER: unknown exporters ignored; expected otlp, console or none",
    );
  if (exporters.length === 0) return undefined;
  const { OpenTelemetryTracing } = await import("./open-telemetry.ts");
  return new OpenTelemetryTracing(exporters, logger);
}

/**
 * Reads the exporters from OTEL_TRACES_EXPORTER (a list of `otlp` and `console`, or `none`). Without it, traces go
 * out over OTLP if an endpoint is set. OTEL_SDK_DISABLED turns traces off.
 */
export function traceExporters(env: Environment): {
  readonly exporters: readonly TraceExporterName[];
  readonly unknown: readonly string[];
} {
  const isDisabled = env.OTEL_SDK_DISABLED?.trim().toLowerCase() === "true";
  const asked = env.OTEL_TRACES_EXPORTER?.trim() ?? "";
  const endpoint = env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT || env.OTEL_EXPORTER_OTLP_ENDPOINT;
  const names = asked === "" ? (endpoint ? ["otlp"] : []) : asked.split(",").map((name) => name.trim());
  if (isDisabled || names.includes("none")) return { exporters: [], unknown: [] };
  return {
    exporters: [...new Set(names.filter(isExporter))],
    unknown: names.filter((name) => !isExporter(name)),
  };
}

function isExporter(name: string): name is TraceExporterName {
  return name === "otlp" || name === "console";
}
