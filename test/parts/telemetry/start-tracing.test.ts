import { pino } from "pino";
import { describe, expect, it } from "vitest";
import { startTracing, traceExporters } from "../../../src/parts/telemetry/start-tracing.ts";

const ENDPOINT = "http://127.0.0.1:4318";

describe("Trace exporters from the environment", () => {
  it.each([
    [{}, []],
    [{ OTEL_SERVICE_NAME: "a" }, []],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "" }, []],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: ENDPOINT }, ["otlp"]],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: ENDPOINT }, ["otlp"]],
    [{ OTEL_TRACES_EXPORTER: "otlp" }, ["otlp"]],
    [{ OTEL_TRACES_EXPORTER: "console" }, ["console"]],
    [{ OTEL_TRACES_EXPORTER: "console, otlp,console" }, ["console", "otlp"]],
    [{ OTEL_TRACES_EXPORTER: "none", OTEL_EXPORTER_OTLP_ENDPOINT: ENDPOINT }, []],
    [{ OTEL_SDK_DISABLED: "True", OTEL_EXPORTER_OTLP_ENDPOINT: ENDPOINT }, []],
    [{ OTEL_SDK_DISABLED: "false", OTEL_EXPORTER_OTLP_ENDPOINT: ENDPOINT }, ["otlp"]],
    [{ OTEL_TRACES_EXPORTER: "zipkin,otlp" }, ["otlp"]],
  ])("%j is %j", (env, exporters) => {
    expect(traceExporters(env).exporters).toEqual(exporters);
  });

  it("An unknown exporter is logged and ignored", async () => {
    const lines: string[] = [];
    const logger = pino({}, { write: (line) => void lines.push(line) });
    expect(await startTracing(logger, { OTEL_TRACES_EXPORTER: "zipkin" })).toBeUndefined();
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ level: 40, unknown: ["zipkin"] }]);
  });
});
