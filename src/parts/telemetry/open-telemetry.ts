import type { Span as OtelSpan, Tracer } from "@opentelemetry/api";
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
import type { Span, SpanStart, Tracing } from "../../core/telemetry.ts";
import { version } from "../../node/version.ts";

/** Exporters that OTEL_TRACES_EXPORTER may name. */
export type TraceExporterName = "otlp" | "console";

const KINDS = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  internal: SpanKind.INTERNAL,
  producer: SpanKind.PRODUCER,
} as const;

/** Longest time that a stop waits for spans to be sent. */
const STOP_TIMEOUT_MS = 3_000;
/** Longest SDK message that is logged. */
const MAX_SDK_MESSAGE_LENGTH = 300;

/**
 * Traces with OpenTelemetry's SDK, which reads its settings from the usual variables: OTEL_SERVICE_NAME,
 * OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_…, OTEL_BSP_….
 */
export class OpenTelemetryTracing implements Tracing {
  readonly #provider: NodeTracerProvider;
  readonly #tracer: Tracer;

  constructor(exporters: readonly TraceExporterName[], logger: Logger) {
    logSdkMessages(logger);
    this.#provider = new NodeTracerProvider({
      resource: defaultResource()
        .merge(resourceFromAttributes({ "service.name": "jobgate", "service.version": version }))
        .merge(detectResources({ detectors: [envDetector] })),
      spanProcessors: exporters.map((name) => new BatchSpanProcessor(exporterOf(name))),
    });
    this.#provider.register();
    this.#tracer = this.#provider.getTracer("jobgate", version);
  }

  async run<T>(start: SpanStart, work: (span: Span) => Promise<T>): Promise<T> {
    const { span, within } = this.#open(start);
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

  runChild<T>(start: SpanStart, work: (span: Span | undefined) => Promise<T>): Promise<T> {
    return trace.getActiveSpan() === undefined ? work(undefined) : this.run(start, work);
  }

  begin(start: SpanStart): Span & { end(): void } {
    const { span } = this.#open(start);
    return { ...handleOf(span), end: () => span.end() };
  }

  traceparent(): string | undefined {
    const carrier: { traceparent?: string } = {};
    propagation.inject(context.active(), carrier);
    return carrier.traceparent;
  }

  async stop(): Promise<void> {
    const timeout = new Promise<void>((resolve) => setTimeout(resolve, STOP_TIMEOUT_MS).unref());
    await Promise.race([this.#provider.shutdown().catch(() => undefined), timeout]);
  }

  #open(start: SpanStart): { span: OtelSpan; within: Context } {
    const { name, kind, attributes = {}, carrier, linked = false } = start;
    const from = carrier === undefined ? context.active() : propagation.extract(context.active(), carrier);
    const parent = trace.getSpanContext(from);
    const links = linked && parent !== undefined ? [{ context: parent }] : [];
    const options = { kind: KINDS[kind], attributes: { ...attributes }, links };
    const span = this.#tracer.startSpan(name, options, from);
    return { span, within: trace.setSpan(from, span) };
  }
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

/** The code or the name of an error. Its message is left out, because it may hold secrets. */
function nameOf(error: unknown): string {
  if (!(error instanceof Error)) return "Error";
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? code : error.name;
}

function exporterOf(name: TraceExporterName): SpanExporter {
  if (name === "console") return new ConsoleSpanExporter();
  const { OTEL_EXPORTER_OTLP_TIMEOUT: general, OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: own } = process.env;
  // A request or a retry in progress keeps the process alive; the SDK's default of 10 s would delay a stop.
  return new OTLPTraceExporter(general || own ? {} : { timeoutMillis: STOP_TIMEOUT_MS });
}

/** Logs the SDK's warnings and errors: an exporter that is down costs nothing but a line in the log. */
function logSdkMessages(logger: Logger): void {
  const warn = (message: string) =>
    logger.warn(
      { reason: message.slice(0, MAX_SDK_MESSAGE_LENGTH) },
      "traces: OpenTelemetry reports a problem",
    );
  const ignore = () => undefined;
  diag.setLogger(
    { error: warn, warn, info: ignore, debug: ignore, verbose: ignore },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
}
