import type { ServerResponse } from "node:http";
import type { Logger } from "pino";
import type { ErrorCode, GatewayError } from "../core/errors.ts";
import type { Counter, Histogram, Span, Telemetry, Tracing } from "../core/telemetry.ts";
import { HttpRequest } from "./request.ts";
import type { HeaderPairs } from "./response.ts";
import type { TableOwner } from "./routes.ts";
import type { Incoming, Uploads } from "./uploads.ts";

/** Route recorded for requests that match no route. */
const UNMATCHED = "unmatched";

/** One request and its answer, as logs, metrics and traces describe them. */
export class Exchange extends HttpRequest {
  readonly incoming: Incoming;
  readonly outgoing: ServerResponse;
  /** `performance.now()` at the end of the request's headers. */
  readonly startedAt = performance.now();
  /** The listener that owns the route. */
  owner: TableOwner;
  /** The route's pattern, never the raw path: metric labels must be bounded. */
  route = UNMATCHED;
  /** Set if the request was refused. */
  error: ErrorCode | undefined;
  /** Set if the request created a JobCall. */
  callId: number | undefined;
  /** Reason why the answer could not be sent. */
  failure: Error | undefined;
  /** True once the route has finished its work. */
  isAnswered = false;
  /** True once the answer is sent, or its client has gone. */
  isSent = false;
  #onEnd: (() => void) | undefined;
  #ended: Promise<void> | undefined;

  constructor(options: {
    readonly id: string;
    readonly incoming: Incoming;
    readonly outgoing: ServerResponse;
    readonly uploads: Uploads;
    readonly owner: TableOwner;
  }) {
    const { id, incoming, outgoing, uploads, owner } = options;
    super(id, incoming, outgoing, uploads);
    this.incoming = incoming;
    this.outgoing = outgoing;
    this.owner = owner;
  }

  /** Headers of every answer to this request, independent of its route. */
  get commonHeaders(): HeaderPairs {
    return [["x-request-id", this.id], ...(this.owner.cors?.headersFor(this.headers.origin) ?? [])];
  }

  /** Resolves at {@link end}. The promise is made only if a caller waits for it. */
  get ended(): Promise<void> {
    this.#ended ??= new Promise((resolve) => {
      this.#onEnd = resolve;
    });
    return this.#ended;
  }

  end(): void {
    this.#onEnd?.();
  }
}

/** Status recorded if a client closes the connection before its answer, as in nginx. */
const CLIENT_GONE = 499;
/** Methods recorded by name. Clients may send any word. */
const KNOWN_METHODS: readonly string[] = ["GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"];
const OTHER_METHOD = "_OTHER";

/** Records each exchange in metrics, traces and the debug log. */
export class ExchangeObserver {
  readonly #telemetry: Telemetry;
  readonly #logger: Logger;
  /** Metrics by listener and route. */
  readonly #routes = new Map<string, Map<string, RouteMetrics>>();

  constructor(telemetry: Telemetry, logger: Logger) {
    this.#telemetry = telemetry;
    this.#logger = logger;
  }

  /** Undefined while traces are off. */
  get tracing(): Tracing | undefined {
    return this.#telemetry.tracing;
  }

  /** Records an exchange that has ended. */
  record(exchange: Exchange): void {
    const { owner, route, error = "", startedAt } = exchange;
    const ms = performance.now() - startedAt;
    this.#metricsOf(owner.listener, route).record(methodLabel(exchange), statusOf(exchange), error, ms);
    if (this.#logger.isLevelEnabled("debug")) this.#log(exchange, ms);
  }

  /** Counts bytes that were not an HTTP request. */
  broken(listener: string, { status, code }: GatewayError): void {
    this.#metricsOf(listener, UNMATCHED).count(OTHER_METHOD, status, code);
  }

  /** Runs `answer` in a span that ends with the exchange. */
  async trace(tracing: Tracing, exchange: Exchange, answer: () => Promise<void>): Promise<void> {
    const name = methodLabel(exchange);
    const ended = tracing.run({ name, kind: "server", carrier: exchange.headers }, async (span) => {
      span.set({ "http.request.method": name, "jobgate.request_id": exchange.id });
      await answer();
      await exchange.ended;
      // Throwing marks the span as failed.
      if (exchange.failure !== undefined) throw exchange.failure;
      describe(span, exchange);
    });
    // The server has already logged the failure.
    await ended.catch(() => undefined);
  }

  #metricsOf(listener: string, route: string): RouteMetrics {
    const known = this.#routes.get(listener)?.get(route);
    if (known !== undefined) return known;
    const metrics = new RouteMetrics({ telemetry: this.#telemetry, listener, route });
    const routes = this.#routes.get(listener) ?? new Map<string, RouteMetrics>();
    this.#routes.set(listener, routes.set(route, metrics));
    return metrics;
  }

  #log(exchange: Exchange, ms: number): void {
    const { id, owner, route, error, callId } = exchange;
    const answer = { status: statusOf(exchange), code: error, ms };
    const call = callId === undefined ? {} : { callId };
    this.#logger.debug(
      { request: id, listener: owner.listener, method: methodLabel(exchange), route, ...answer, ...call },
      "request answered",
    );
  }
}

/**
 * Metrics of one route. A metric is looked up once for each method, status and error code, instead of for each request.
 */
class RouteMetrics {
  readonly #telemetry: Telemetry;
  readonly #listener: string;
  readonly #route: string;
  readonly #duration: Histogram;
  /** Counters by method, status and error code. */
  readonly #requests = new Map<string, Counter>();

  constructor(parts: { readonly telemetry: Telemetry; readonly listener: string; readonly route: string }) {
    const { telemetry, listener, route } = parts;
    this.#telemetry = telemetry;
    this.#listener = listener;
    this.#route = route;
    this.#duration = telemetry.histogram("jobgate_http_request_duration_seconds", { listener, route });
  }

  record(method: string, status: number, error: string, ms: number): void {
    this.count(method, status, error);
    this.#duration.observe(ms / 1000);
  }

  count(method: string, status: number, error: string): void {
    const key = `${method} ${status} ${error}`;
    let requests = this.#requests.get(key);
    if (requests === undefined) {
      const labels = { listener: this.#listener, route: this.#route, method, code: String(status), error };
      requests = this.#telemetry.counter("jobgate_http_requests_total", labels);
      this.#requests.set(key, requests);
    }
    requests.add(1);
  }
}

function describe(span: Span, exchange: Exchange): void {
  const { owner, route, error } = exchange;
  const status = statusOf(exchange);
  span.rename(`${methodLabel(exchange)} ${route}`);
  span.set({
    "http.route": route,
    "http.response.status_code": status,
    "jobgate.listener": owner.listener,
    ...(error === undefined ? {} : { "jobgate.error_code": error }),
  });
  if (status >= 500) span.fail(error ?? String(status));
}

function statusOf({ outgoing }: Exchange): number {
  return outgoing.headersSent ? outgoing.statusCode : CLIENT_GONE;
}

function methodLabel({ method }: Exchange): string {
  return KNOWN_METHODS.includes(method) ? method : OTHER_METHOD;
}
