import { spawnSync } from "node:child_process";
import { pino } from "pino";
import { describe, expect, it } from "vitest";
import { startTracing, traceExporters } from "../../../src/parts/telemetry/start-tracing.ts";
import { bundledScript } from "../../helpers/bundle.ts";

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

it("The OpenTelemetry SDK is not loaded while traces are off", () => {
  const program = `import { createRequire } from "node:module";
    import "./src/host.ts";
    const loaded = Object.keys(createRequire(import.meta.url).cache);
    console.log(loaded.length > 0, loaded.filter((path) => path.includes("@opentelemetry/sdk") || path.includes("exporter-trace")).length);`;
  const { stdout } = spawnSync(process.execPath, [bundledScript(program, { packages: "external" })], {
    encoding: "utf8",
    env: { ...process.env, OTEL_TRACES_EXPORTER: "none" },
  });
  expect(stdout).toBe("true 0\n");
});
