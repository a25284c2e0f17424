import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "pino";
import type { ErrorCode, GatewayError } from "../core/errors.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Span } from "../telemetry/tracing.ts";
import type { HttpRequest } from "./request.ts";

/** One request and its answer, as they are told to the operator: what it was for, and what came of it. */
export interface Exchange {
  readonly request: HttpRequest;
  /** Name of the listener whose route it is. */
  listener: string;
  /** The route's pattern, never the path as it was sent: there is no end to those. */
  route: string;
  /** Present when it was refused. */
  error?: ErrorCode;
  /** Present when it led to a JobCall. */
  callId?: number;
}

/** A client that hung up before it was answered, in the word of nginx. */
const CLIENT_GONE = "499";
const UNMATCHED = "unmatched";

export interface ExchangeObserver {
  /**
   * Lets `answer` answer the request, and tells of it once the answer has been sent.
   * @param listener of requests that no route is found for
   */
  observe(
    request: HttpRequest,
    listener: string,
    messages: { readonly incoming: IncomingMessage; readonly outgoing: ServerResponse },
    answer: (exchange: Exchange) => Promise<void>,
  ): Promise<void>;
  /** What came was no request, and was refused as a whole. */
  broken(listener: string, refusal: GatewayError): void;
}

export function createExchangeObserver(telemetry: Telemetry, logger: Logger): ExchangeObserver {
  const { tracing } = telemetry;

  function count({ listener, route }: Told, method: string, code: string, error: ErrorCode | ""): void {
    telemetry.count("jobgate_http_requests_total", { listener, route, method, code, error });
  }

  function ended({ request, listener, route, error, callId }: Exchange, code: string, ms: number): void {
    const method = methodOf(request);
    count({ listener, route }, method, code, error ?? "");
    telemetry.observe("jobgate_http_request_duration_seconds", { listener, route }, ms / 1000);
    if (!logger.isLevelEnabled("debug")) return;
    const answer = { status: Number(code), ...(error === undefined ? {} : { code: error }), ms };
    const call = callId === undefined ? {} : { callId };
    logger.debug({ request: request.id, listener, method, route, ...answer, ...call }, "request answered");
  }

  return {
    async observe(request, listener, { incoming, outgoing }, answer) {
      const startedAt = performance.now();
      const exchange: Exchange = { request, listener, route: UNMATCHED };
      const codeOf = () => (outgoing.headersSent ? String(outgoing.statusCode) : CLIENT_GONE);
      try {
        if (tracing === undefined) return await answer(exchange);
        const name = methodOf(request);
        await tracing.run({ name, kind: "server", carrier: incoming.headers }, async (span) => {
          span.set({ "http.request.method": name, "jobgate.request_id": request.id });
          await answer(exchange);
          describe(span, exchange, codeOf());
        });
      } finally {
        ended(exchange, codeOf(), performance.now() - startedAt);
      }
    },
    broken: (listener, { status, code }) =>
      count({ listener, route: UNMATCHED }, "_OTHER", String(status), code),
  };
}

type Told = Pick<Exchange, "listener" | "route">;

function describe(span: Span, { request, listener, route, error }: Exchange, code: string): void {
  span.rename(`${methodOf(request)} ${route}`);
  span.set({
    "http.route": route,
    "http.response.status_code": Number(code),
    "jobgate.listener": listener,
    ...(error === undefined ? {} : { "jobgate.error_code": error }),
  });
  if (Number(code) >= 500) span.fail(error ?? code);
}

/** Clients may send any word as a method. */
function methodOf({ method }: HttpRequest): string {
  return ["GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"].includes(method) ? method : "_OTHER";
}
