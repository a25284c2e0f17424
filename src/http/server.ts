import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Duplex, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Logger } from "pino";
import { GatewayError } from "../core/errors.ts";
import type { BindAddress } from "../core/network-address.ts";
import { bindUnixSocket, type UnixSocketFile } from "../node/unix-socket.ts";
import { NO_TELEMETRY, type Telemetry } from "../telemetry/telemetry.ts";
import { createExchangeObserver, type Exchange, type ExchangeObserver } from "./answer.ts";
import { refuseBrokenRequest } from "./broken-request.ts";
import { closeWithConnection } from "./pipelined-answers.ts";
import { pathOf, toHttpRequest } from "./request.ts";
import { errorResponse, type HttpResponse, type StreamingResponse } from "./response.ts";
import { handlerOf, type MethodHandlers, type RouteTable } from "./routes.ts";
import { ClientGone, createUploads, type Uploads } from "./uploads.ts";

export interface HttpServerOptions {
  readonly address: BindAddress;
  readonly logger: Logger;
  /** Is told of every request. Default: nobody is. */
  readonly telemetry?: Telemetry;
  /** Default: {@link HTTP_TIMEOUTS}. */
  readonly timeouts?: Partial<HttpTimeouts>;
  /** Of bodies that are still arriving, all together. Default: 64 MiB, or four of the largest that a route takes. */
  readonly maxHeldBodyBytes?: number;
}

export interface HttpTimeouts {
  /** A client has this long to send its headers. */
  readonly headersMs: number;
  /** A client has this long to send its whole request. */
  readonly requestMs: number;
  /** How long a connection may be idle between two requests. */
  readonly keepAliveMs: number;
  /** How long after `unmount` a client may still take to finish sending a request. */
  readonly stopUploadMs: number;
  /** How long requests in hand may take after `unmount`, settlements included, before their sockets are cut. */
  readonly stopMs: number;
}

const HTTP_TIMEOUTS: HttpTimeouts = {
  headersMs: 10_000,
  requestMs: 30_000,
  keepAliveMs: 65_000,
  stopUploadMs: 5_000,
  stopMs: 90_000,
};

/** Most bytes of request line and headers together; a payment header is 1 to 4 KiB. */
const MAX_HEADER_BYTES = 32 * 1024;
/** Of silence, before the peer is asked whether it is still there. */
const TCP_KEEP_ALIVE_MS = 30_000;
/** A listener that was mounted without a name. */
const UNNAMED = "http";

/**
 * One socket that serves the routes mounted on it. Gateways configured with one address share one server:
 * it listens from the first mount to the last unmount.
 */
export class HttpServer {
  readonly #options: HttpServerOptions;
  readonly #timeouts: HttpTimeouts;
  readonly #exchanges: ExchangeObserver;
  /** Each with the name of its listener. */
  readonly #tables = new Map<RouteTable, string>();
  /** Tables whose gateway is stopping: their paths are known, but take no requests. */
  readonly #leaving = new Map<RouteTable, string>();
  readonly #inHand = new Map<IncomingMessage, Promise<void>>();
  #server: Server | undefined;
  #socketFile: UnixSocketFile | undefined;
  #listening: Promise<void> | undefined;
  readonly #uploads: Uploads;
  #requestCount = 0;

  constructor(options: HttpServerOptions) {
    this.#uploads = createUploads(options.maxHeldBodyBytes);
    this.#options = options;
    this.#exchanges = createExchangeObserver(options.telemetry ?? NO_TELEMETRY, options.logger);
    this.#timeouts = { ...HTTP_TIMEOUTS, ...options.timeouts };
  }

  /**
   * Adds routes, and starts to listen if these are the first. Rejects when the address cannot be bound.
   * @param listener what the operator knows them by
   */
  async mount(routes: RouteTable, listener = UNNAMED): Promise<void> {
    this.#tables.set(routes, listener);
    this.#listening ??= this.#listen();
    try {
      await this.#listening;
    } catch (cause) {
      this.#tables.delete(routes);
      this.#listening = undefined;
      throw cause;
    }
  }

  /** Takes the routes away; with the last ones, stops listening. Resolves once the requests in hand are answered. */
  async unmount(routes: RouteTable): Promise<void> {
    const listener = this.#tables.get(routes);
    if (listener === undefined) return;
    this.#tables.delete(routes);
    this.#leaving.set(routes, listener);
    if (this.#tables.size > 0) await Promise.allSettled([...this.#inHand.values()]);
    else await this.#close();
    this.#leaving.delete(routes);
  }

  /** `host:port` with the port that was really bound, or `unix:path`. */
  get address(): string {
    const { address } = this.#options;
    if (address.kind === "unix") return `unix:${address.path}`;
    const bound = this.#server?.address() as AddressInfo | null | undefined;
    const host = address.host.includes(":") ? `[${address.host}]` : address.host;
    return `${host}:${bound?.port ?? address.port}`;
  }

  async #listen(): Promise<void> {
    const { address, logger } = this.#options;
    const server = this.#createServer();
    this.#server = server;
    const bind = async (target: { path: string } | { host: string; port: number }): Promise<void> => {
      server.listen(target);
      await once(server, "listening");
    };
    // Whoever may connect may do what the operator may: only the user that jobgate runs as.
    if (address.kind === "unix")
      this.#socketFile = await bindUnixSocket(address.path, (path) => bind({ path }));
    else await bind({ host: address.host, port: address.port });
    server.on("error", (error) => logger.error({ err: error }, "HTTP listener failed"));
  }

  #createServer(): Server {
    const { headersMs, requestMs, keepAliveMs } = this.#timeouts;
    const server = createServer(
      {
        maxHeaderSize: MAX_HEADER_BYTES,
        headersTimeout: headersMs,
        requestTimeout: requestMs,
        keepAliveTimeout: keepAliveMs,
        // The reader of a stream whose network is gone is noticed, and gives its place back.
        keepAlive: true,
        keepAliveInitialDelay: TCP_KEEP_ALIVE_MS,
        connectionsCheckingInterval: Math.min(1_000, headersMs),
        // Checked where the answer is made, so that the refusal has the shape of every other one.
        requireHostHeader: false,
      },
      (incoming, outgoing) => this.#take(incoming, outgoing),
    );
    // An expectation that is not known may be ignored (RFC 9110 §10.1.1); Node would answer by itself, and not in JSON.
    server.on("checkExpectation", (incoming, outgoing) => this.#take(incoming, outgoing));
    // Past 1,000 Node would leave headers out without a word, and with them a second signature or a proxy's own
    // X-Forwarded-For; their size is bounded above.
    server.maxHeadersCount = 0;
    server.on("clientError", (error, socket) => {
      // The refusal would pass for the answer to a request before it that is still being worked on.
      if (this.#isAwaitedOn(socket)) return void socket.destroy();
      const begun = this.#begunOn(socket);
      const refusal = refuseBrokenRequest(
        error,
        socket,
        begun && findRoute(this.#tables, pathOf(begun))?.handlers,
      );
      // A request whose rest was no good is told of as the one that it began as.
      if (refusal !== undefined && begun === undefined)
        this.#exchanges.broken(this.#firstListener(), refusal);
    });
    return server;
  }

  #take(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const answered = this.#answer(incoming, outgoing)
      .catch((error: unknown) => {
        this.#options.logger.error({ err: error }, "an answer could not be sent");
        outgoing.destroy();
      })
      .finally(() => this.#inHand.delete(incoming));
    this.#inHand.set(incoming, answered);
  }

  /** The request that is being worked on for this connection. */
  #begunOn(socket: Duplex): IncomingMessage | undefined {
    for (const incoming of this.#inHand.keys()) if (incoming.socket === socket) return incoming;
    return undefined;
  }

  /** Whether a request that arrived whole on this connection has no answer yet. */
  #isAwaitedOn(socket: Duplex): boolean {
    for (const incoming of this.#inHand.keys())
      if (incoming.socket === socket && incoming.complete) return true;
    return false;
  }

  async #close(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    const { stopUploadMs, stopMs } = this.#timeouts;
    const cuts = [
      // Node no longer checks time-outs once a server closes.
      setTimeout(() => this.#cutUploads(), stopUploadMs),
      setTimeout(() => server.closeAllConnections(), stopMs),
    ];
    while (this.#inHand.size > 0) await Promise.allSettled([...this.#inHand.values()]);
    // What is left has not sent a request: it would never close by itself.
    server.closeAllConnections();
    await closed;
    for (const cut of cuts) clearTimeout(cut);
    await this.#socketFile?.remove();
    this.#listening = undefined;
  }

  #cutUploads(): void {
    for (const incoming of this.#inHand.keys()) if (!incoming.complete) incoming.socket.destroy();
  }

  /** Resolves once the answer is on its way, or its client has gone. */
  async #answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const sent = new Promise<void>((resolve) => outgoing.once("close", resolve));
    closeWithConnection(incoming, outgoing);
    // Once nothing is mounted the server is stopping: clients on a kept-alive connection are to go elsewhere.
    if (this.#tables.size === 0) outgoing.setHeader("connection", "close");
    const request = toHttpRequest(incoming, outgoing, {
      id: `r${++this.#requestCount}`,
      uploads: this.#uploads,
    });
    await this.#exchanges.observe(
      request,
      this.#firstListener(),
      { incoming, outgoing },
      async (exchange) => {
        await this.#respond(incoming, outgoing, exchange);
        await sent;
      },
    );
  }

  async #respond(incoming: IncomingMessage, outgoing: ServerResponse, exchange: Exchange): Promise<void> {
    const { request } = exchange;
    const sendWhole = (answer: HttpResponse) => {
      if (answer.refusal !== undefined) exchange.error = answer.refusal;
      if (answer.callId !== undefined) exchange.callId = answer.callId;
      send(outgoing, answer);
    };
    try {
      const handlers = this.#routeOf(exchange);
      if (incoming.httpVersion === "1.1" && incoming.headers.host === undefined) {
        throw new GatewayError("bad_request", "An HTTP/1.1 request needs a Host header.", {
          details: handlers.refusalDetails?.("bad_request") ?? {},
        });
      }
      const answer = await handlerOf(handlers, request)(request);
      if (typeof answer === "function") answer(incoming, outgoing);
      else if ("stream" in answer) await sendStream(outgoing, answer);
      else sendWhole(answer);
    } catch (error) {
      if (error instanceof ClientGone) outgoing.destroy();
      else if (outgoing.headersSent) throw error;
      else sendWhole(errorResponse(this.#refusalOf(error, exchange)));
    }
  }

  #routeOf(exchange: Exchange): MethodHandlers {
    const { path } = exchange.request;
    const found = findRoute(this.#tables, path) ?? findRoute(this.#leaving, path);
    if (found === undefined)
      throw new GatewayError("not_found", "There is nothing at this path. Paths are compared byte for byte.");
    const { table, listener, handlers } = found;
    exchange.listener = listener;
    exchange.route = handlers.route ?? path;
    if (this.#tables.has(table)) return handlers;
    throw new GatewayError("shutting_down", "jobgate is shutting down: try again soon.", {
      details: handlers.refusalDetails?.("shutting_down") ?? {},
      headers: { "retry-after": "5" },
    });
  }

  /** Whose the requests are that no route is found for. */
  #firstListener(): string {
    const [listener = UNNAMED] = this.#tables.values();
    return listener;
  }

  #refusalOf(error: unknown, { request, route }: Exchange): GatewayError {
    if (error instanceof GatewayError && error.code !== "internal_error") return error;
    this.#options.logger.error({ err: error, request: request.id, route }, "request failed unexpectedly");
    if (error instanceof GatewayError) return error;
    return new GatewayError("internal_error", "Something went wrong inside jobgate.");
  }
}

interface FoundRoute {
  readonly table: RouteTable;
  /** Whose table it is. */
  readonly listener: string;
  readonly handlers: MethodHandlers;
}

function findRoute(tables: ReadonlyMap<RouteTable, string>, path: string): FoundRoute | undefined {
  for (const [table, listener] of tables) {
    const handlers = table(path);
    if (handlers !== undefined) return { table, listener, handlers };
  }
  return undefined;
}

function send(outgoing: ServerResponse, response: HttpResponse): void {
  const body = typeof response.body === "string" ? Buffer.from(response.body) : response.body;
  // RFC 9110 §8.6: a 204 has no Content-Length, and a 304 not that of its own empty body.
  const length =
    response.status === 204 || response.status === 304 ? {} : { "content-length": body.byteLength };
  outgoing.writeHead(response.status, { ...response.headers, ...length });
  outgoing.end(body);
}

/** Rejects when the stream fails: then the connection is cut, so that the answer does not pass for whole. */
async function sendStream(
  outgoing: ServerResponse,
  { status, headers, stream }: StreamingResponse,
): Promise<void> {
  outgoing.writeHead(status, headers);
  // The client is to know that it is connected before there is anything to say.
  outgoing.flushHeaders();
  try {
    // One piece ahead at most: what a slow client gets is to be as new as can be.
    await pipeline(Readable.from(stream, { highWaterMark: 1 }), outgoing);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_STREAM_PREMATURE_CLOSE") throw error;
  }
}
