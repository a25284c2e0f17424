import type { Span as OtelSpan } from "@opentelemetry/api";
import {
  type Context,
  context,
  DiagLogLevel,
  diag,
  propagation,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from "@opentelemetry/resources";
import {
  BatchSpanProcessor,
  ConsoleSpanExporter,
  NodeTracerProvider,
  type SpanExporter,
} from "@opentelemetry/sdk-trace-node";
import type { Logger } from "pino";
import { version } from "../node/version.ts";
import type { Span, SpanOptions, Tracing } from "./tracing.ts";

/** What OTEL_TRACES_EXPORTER may name. */
export type TraceExporterName = "otlp" | "console";

const KINDS = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  internal: SpanKind.INTERNAL,
  producer: SpanKind.PRODUCER,
} as const;

/** How long a stop may wait for what has not been sent. */
const STOP_TIMEOUT_MS = 3_000;
/** Of what the SDK complains about. */
const MAX_COMPLAINT_LENGTH = 300;

/**
 * Traces with the SDK of OpenTelemetry, which reads its settings from the usual variables: OTEL_SERVICE_NAME,
 * OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_…, OTEL_BSP_….
 */
export function createOpenTelemetryTracing(exporters: readonly TraceExporterName[], logger: Logger): Tracing {
  logComplaints(logger);
  const provider = new NodeTracerProvider({
    resource: defaultResource()
      .merge(resourceFromAttributes({ "service.name": "jobgate", "service.version": version }))
      .merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: exporters.map((name) => new BatchSpanProcessor(exporterOf(name))),
  });
  provider.register();
  const tracer = provider.getTracer("jobgate", version);

  function open(options: SpanOptions): { span: OtelSpan; within: Context } {
    const { name, kind, attributes = {}, carrier, linked = false } = options;
    const from = carrier === undefined ? context.active() : propagation.extract(context.active(), carrier);
    const parent = trace.getSpanContext(from);
    const links = linked && parent !== undefined ? [{ context: parent }] : [];
    const span = tracer.startSpan(name, { kind: KINDS[kind], attributes: { ...attributes }, links }, from);
    return { span, within: trace.setSpan(from, span) };
  }

  async function run<T>(options: SpanOptions, work: (span: Span) => Promise<T>): Promise<T> {
    const { span, within } = open(options);
    const handle = handleOf(span);
    try {
      return await context.with(within, () => work(handle));
    } catch (error) {
      handle.fail(nameOf(error));
      throw error;
    } finally {
      span.end();
    }
  }

  return {
    run,
    runChild: (options, work) => (trace.getActiveSpan() === undefined ? work(undefined) : run(options, work)),
    begin(options) {
      const { span } = open(options);
      return { ...handleOf(span), end: () => span.end() };
    },
    traceparent() {
      const carrier: { traceparent?: string } = {};
      propagation.inject(context.active(), carrier);
      return carrier.traceparent;
    },
    async stop() {
      const timeout = new Promise<void>((resolve) => setTimeout(resolve, STOP_TIMEOUT_MS).unref());
      await Promise.race([provider.shutdown().catch(() => undefined), timeout]);
    },
  };
}

function handleOf(span: OtelSpan): Span {
  return {
    rename: (name) => void span.updateName(name),
    set: (attributes) => void span.setAttributes({ ...attributes }),
    fail(reason) {
      span.setAttribute("error.type", reason);
      span.setStatus({ code: SpanStatusCode.ERROR });
    },
  };
}

/** Messages may hold what must not leave: only the kind of error is told. */
function nameOf(error: unknown): string {
  if (!(error instanceof Error)) return "Error";
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? code : error.name;
}

function exporterOf(name: TraceExporterName): SpanExporter {
  if (name === "console") return new ConsoleSpanExporter();
  const { OTEL_EXPORTER_OTLP_TIMEOUT: general, OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: own } = process.env;
  // What is being sent, or sent again, keeps the process alive: with the SDK's 10 s that would hold up a stop.
  return new OTLPTraceExporter(general || own ? {} : { timeoutMillis: STOP_TIMEOUT_MS });
}

/** An exporter that is down is no more than a line in the log. */
function logComplaints(logger: Logger): void {
  const complain = (message: string) =>
    logger.warn({ reason: message.slice(0, MAX_COMPLAINT_LENGTH) }, "traces: OpenTelemetry complains");
  const ignore = () => undefined;
  diag.setLogger(
    { error: complain, warn: complain, info: ignore, debug: ignore, verbose: ignore },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
}
