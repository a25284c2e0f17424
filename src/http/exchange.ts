import type { ServerResponse } from "node:http";
import type { Logger } from "pino";
import type { ErrorCode, GatewayError } from "../core/errors.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Span } from "../telemetry/tracing.ts";
import type { HttpRequest } from "./request.ts";

/** One request and its answer, as logs, metrics and traces describe them. */
export interface Exchange {
  readonly request: HttpRequest;
  /** Name of the listener that owns the route. */
  listener: string;
  /** The route's pattern, never the raw path: metric labels must be bounded. */
  route: string;
  /** Present when the request was refused. */
  error?: ErrorCode;
  /** Present when the request created a JobCall. */
  callId?: number;
}

/** Status recorded when a client hangs up before it is answered, as in nginx. */
const CLIENT_GONE = "499";
/** Route recorded for requests that match none. */
export const UNMATCHED = "unmatched";
/** Methods recorded by name. Clients may send any word. */
const KNOWN_METHODS: readonly string[] = ["GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"];

/** Records each exchange in metrics, traces and the debug log. */
export class ExchangeObserver {
  readonly #telemetry: Telemetry;
  readonly #logger: Logger;

  constructor(telemetry: Telemetry, logger: Logger) {
    this.#telemetry = telemetry;
    this.#logger = logger;
  }

  /**
   * Runs `answer`, and records the exchange once it resolves.
   * @param answer sends the answer, and completes the exchange with what it learns of the request
   */
  async observe(exchange: Exchange, outgoing: ServerResponse, answer: () => Promise<void>): Promise<void> {
    const startedAt = performance.now();
    const { request } = exchange;
    const { tracing } = this.#telemetry;
    try {
      if (tracing === undefined) return await answer();
      const name = methodLabel(request);
      await tracing.run({ name, kind: "server", carrier: request.headers }, async (span) => {
        span.set({ "http.request.method": name, "jobgate.request_id": request.id });
        await answer();
        describe(span, exchange, statusLabel(outgoing));
      });
    } finally {
      this.#record(exchange, statusLabel(outgoing), performance.now() - startedAt);
    }
  }

  /** Counts bytes that were not an HTTP request. */
  broken(listener: string, { status, code: error }: GatewayError): void {
    this.#count({ listener, route: UNMATCHED, method: "_OTHER", code: String(status), error });
  }

  #record({ request, listener, route, error, callId }: Exchange, code: string, ms: number): void {
    const method = methodLabel(request);
    this.#count({ listener, route, method, code, error: error ?? "" });
    this.#telemetry.observe("jobgate_http_request_duration_seconds", { listener, route }, ms / 1000);
    if (!this.#logger.isLevelEnabled("debug")) return;
    const answer = { status: Number(code), ...(error === undefined ? {} : { code: error }), ms };
    const call = callId === undefined ? {} : { callId };
    this.#logger.debug(
      { request: request.id, listener, method, route, ...answer, ...call },
      "request answered",
    );
  }

  #count(labels: Record<"listener" | "route" | "method" | "code" | "error", string>): void {
    this.#telemetry.count("jobgate_http_requests_total", labels);
  }
}

function describe(span: Span, { request, listener, route, error }: Exchange, code: string): void {
  span.rename(`${methodLabel(request)} ${route}`);
  span.set({
    "http.route": route,
    "http.response.status_code": Number(code),
    "jobgate.listener": listener,
    ...(error === undefined ? {} : { "jobgate.error_code": error }),
  });
  if (Number(code) >= 500) span.fail(error ?? code);
}

function statusLabel(outgoing: ServerResponse): string {
  return outgoing.headersSent ? String(outgoing.statusCode) : CLIENT_GONE;
}

function methodLabel({ method }: HttpRequest): string {
  return KNOWN_METHODS.includes(method) ? method : "_OTHER";
}
