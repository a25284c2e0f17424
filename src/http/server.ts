import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Logger } from "pino";
import { type GatewayError, refusalOf } from "../core/errors.ts";
import { addressText, type BindAddress } from "../core/network-address.ts";
import { NO_TELEMETRY, type Telemetry } from "../core/telemetry.ts";
import { bindUnixSocket, type UnixSocketFile } from "../node/unix-socket.ts";
import { AnswersInProgress, type RefusalParts } from "./answers-in-progress.ts";
import { Exchange, ExchangeObserver } from "./exchange.ts";
import { DEFAULT_TIMEOUTS, type HttpTimeouts, MAX_HEADER_BYTES, TCP_KEEP_ALIVE_MS } from "./limits.ts";
import { hasKnownFraming, hasOneHost, pathOf } from "./request.ts";
import {
  closeWithConnection,
  endWithReader,
  errorResponse,
  type HttpResponse,
  NO_SNIFF,
  sendStream,
  sendWhole,
  UntakenAnswers,
} from "./response.ts";
import {
  findRoute,
  handlerOf,
  isPlainQuery,
  type MethodHandlers,
  methodsOf,
  type RouteAnswer,
  type RouteTable,
  refusalAt,
  type TableOwner,
} from "./routes.ts";
import { ClientGone, Incoming, Uploads } from "./uploads.ts";

/** Owner of tables that were mounted without a name. */
const UNNAMED: TableOwner = { listener: "http" };

/**
 * One socket that serves the routes mounted on it. Gateways configured with one address share one server. The server
 * listens from the first mount to the last unmount.
 */
export class HttpServer {
  readonly #address: BindAddress;
  readonly #logger: Logger;
  readonly #timeouts: HttpTimeouts;
  readonly #uploads: Uploads;
  readonly #exchanges: ExchangeObserver;
  readonly #tables = new Map<RouteTable, TableOwner>();
  /** Tables whose gateway is stopping or has stopped while others share the socket. Requests to their paths are refused. */
  readonly #leaving = new Map<RouteTable, TableOwner>();
  readonly #answers = new AnswersInProgress();
  readonly #untaken: UntakenAnswers;
  #server: Server | undefined;
  #socketFile: UnixSocketFile | undefined;
  #listening: Promise<void> | undefined;
  /** Makes request IDs differ from the IDs of other replicas, and from the IDs before a restart. */
  readonly #idPrefix = `r${randomBytes(5).toString("hex")}`;
  #requestCount = 0;

  constructor(options: {
    readonly address: BindAddress;
    readonly logger: Logger;
    readonly telemetry?: Telemetry;
    readonly timeouts?: Partial<HttpTimeouts>;
    /** Bound on all incomplete bodies together. Default: 64 MiB, or four of the largest body that a route accepts. */
    readonly maxHeldBodyBytes?: number;
  }) {
    this.#address = options.address;
    this.#logger = options.logger;
    this.#timeouts = { ...DEFAULT_TIMEOUTS, ...options.timeouts };
    this.#untaken = new UntakenAnswers(this.#timeouts.quietMs);
    this.#uploads = new Uploads(options.maxHeldBodyBytes);
    this.#exchanges = new ExchangeObserver(options.telemetry ?? NO_TELEMETRY, options.logger);
  }

  /**
   * Adds routes, and starts to listen if these are the first. Rejects when the address cannot be bound.
   */
  async mount(routes: RouteTable, owner = UNNAMED): Promise<void> {
    this.#leaving.delete(routes);
    this.#tables.set(routes, owner);
    this.#listening ??= this.#listen();
    try {
      await this.#listening;
    } catch (cause) {
      this.#tables.delete(routes);
      this.#listening = undefined;
      throw cause;
    }
  }

  /** Removes routes, and stops listening after the last routes. Resolves once the requests in progress are answered. */
  async unmount(routes: RouteTable): Promise<void> {
    const owner = this.#tables.get(routes);
    if (owner === undefined) return;
    this.#tables.delete(routes);
    this.#leaving.set(routes, owner);
    if (this.#tables.size > 0) return this.#answers.settle();
    await this.#close();
    this.#leaving.clear();
  }

  /** `host:port` as bound, or `unix:path`. */
  get address(): string {
    const address = this.#address;
    if (address.kind === "unix") return addressText(address);
    const bound = this.#server?.address() as AddressInfo | null | undefined;
    return addressText({ ...address, port: bound?.port ?? address.port });
  }

  async #listen(): Promise<void> {
    const address = this.#address;
    const server = this.#createServer();
    this.#server = server;
    const bind = async (target: { path: string } | { host: string; port: number }): Promise<void> => {
      server.listen(target);
      await once(server, "listening");
    };
    // Connecting to the operator's socket needs no further credentials, because only jobgate's own user may connect.
    if (address.kind === "unix")
      this.#socketFile = await bindUnixSocket(address.path, (path) => bind({ path }));
    else await bind({ host: address.host, port: address.port });
    server.on("error", (error) => this.#logger.error({ err: error }, "HTTP listener failed"));
  }

  #createServer(): Server {
    const { headersMs, requestMs, keepAliveMs } = this.#timeouts;
    const server = createServer(
      {
        IncomingMessage: Incoming,
        maxHeaderSize: MAX_HEADER_BYTES,
        headersTimeout: headersMs,
        requestTimeout: requestMs,
        keepAliveTimeout: keepAliveMs,
        // Detects that the network of a stream's reader is gone, and frees its place.
        keepAlive: true,
        keepAliveInitialDelay: TCP_KEEP_ALIVE_MS,
        connectionsCheckingInterval: Math.min(1_000, headersMs),
        // #handle checks the header instead, so that the refusal has the JSON form of all refusals.
        requireHostHeader: false,
      },
      (incoming, outgoing) => this.#begin(incoming, outgoing),
    );
    // A refusal before `100 Continue` saves the client from sending its body. Node then closes the connection.
    server.on("checkContinue", (message, outgoing) => {
      const incoming = message as Incoming;
      incoming.invitesBy(() => outgoing.writeContinue());
      this.#begin(incoming, outgoing);
    });
    // RFC 9110 §10.1.1 lets a server ignore an unknown expectation. Node would refuse it without JSON.
    server.on("checkExpectation", (incoming, outgoing) => this.#begin(incoming as Incoming, outgoing));
    // Node silently drops headers past 1,000, which could include a second signature or a proxy's own X-Forwarded-For.
    // MAX_HEADER_BYTES bounds them instead.
    server.maxHeadersCount = 0;
    this.#answers.protect(server, {
      allow: "GET, POST",
      refusalParts: (incoming) => this.#refusalParts(incoming),
      onRefused: (refusal) => this.#exchanges.broken(this.#ownerWithoutRoute("").listener, refusal),
    });
    return server;
  }

  async #close(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    const { stopUploadMs, stopMs } = this.#timeouts;
    const cuts = [
      // Node no longer checks its own timeouts once a server closes.
      setTimeout(() => this.#answers.cutUploads(), stopUploadMs),
      setTimeout(() => server.closeAllConnections(), stopMs),
    ];
    while (this.#answers.size > 0) await this.#answers.settle();
    // The connections that are left have sent no request, and would never close by themselves.
    server.closeAllConnections();
    await closed;
    for (const cut of cuts) clearTimeout(cut);
    await this.#socketFile?.remove();
    this.#listening = undefined;
  }

  #begin(incoming: Incoming, outgoing: ServerResponse): void {
    const uploads = this.#uploads;
    const exchange = new Exchange({
      id: `${this.#idPrefix}-${++this.#requestCount}`,
      incoming,
      outgoing,
      uploads,
      owner: UNNAMED,
    });
    this.#answers.add(exchange);
    outgoing.on("close", () => {
      exchange.isSent = true;
      if (exchange.isAnswered) this.#end(exchange);
    });
    closeWithConnection(incoming, outgoing);
    // A server without routes is stopping, so clients with kept-alive connections are sent elsewhere.
    if (this.#tables.size === 0) outgoing.setHeader("connection", "close");
    const { tracing } = this.#exchanges;
    if (tracing === undefined || !this.#isTraced(exchange)) void this.#respond(exchange);
    else void this.#exchanges.trace(tracing, exchange, () => this.#respond(exchange));
  }

  #isTraced({ path, headers }: Exchange): boolean {
    return headers.traceparent !== undefined || this.#ownerOf(path).startsTraces !== false;
  }

  /** Resolves once the route has finished its work. Never rejects. */
  async #respond(exchange: Exchange): Promise<void> {
    const { incoming, outgoing } = exchange;
    const earlier = this.#untaken.next(incoming.socket);
    try {
      if (earlier !== undefined) await earlier;
      const answer = await this.#handle(exchange);
      if ("onSent" in answer && answer.onSent !== undefined) this.#untaken.watch(outgoing, answer.onSent);
      if (typeof answer === "function") {
        endWithReader(incoming, outgoing);
        outgoing.setHeader(...NO_SNIFF);
        for (const [name, value] of exchange.commonHeaders) outgoing.setHeader(name, value);
        incoming.invite();
        answer(incoming, outgoing);
      } else if ("stream" in answer) await sendStream(outgoing, answer, exchange.commonHeaders);
      else this.#send(answer, exchange);
    } catch (error) {
      this.#refuse(error, exchange);
    }
    exchange.isAnswered = true;
    if (exchange.isSent) this.#end(exchange);
  }

  /** Calls the request's route. @throws GatewayError when there is none, or the request is not valid HTTP */
  #handle(exchange: Exchange): RouteAnswer | Promise<RouteAnswer> {
    const { incoming, outgoing } = exchange;
    const handlers = this.#routeOf(exchange);
    if (incoming.httpVersion === "1.1" && !hasOneHost(incoming)) {
      throw refusalAt(handlers, "bad_request", "An HTTP/1.1 request needs one Host header.");
    }
    if (!hasKnownFraming(incoming)) {
      outgoing.setHeader("connection", "close");
      throw refusalAt(handlers, "bad_request", "Transfer-Encoding can only be chunked, sent once.");
    }
    const { cors } = exchange.owner;
    if (cors !== undefined && exchange.method === "OPTIONS")
      return cors.preflight(exchange, methodsOf(handlers));
    return handlerOf(handlers, exchange)(exchange);
  }

  #refuse(error: unknown, exchange: Exchange): void {
    const { outgoing, id, route } = exchange;
    try {
      if (error instanceof ClientGone) outgoing.destroy();
      else if (outgoing.headersSent) throw error;
      else this.#send(errorResponse(this.#refusalOf(error, exchange)), exchange);
    } catch (failure) {
      this.#logger.error({ err: failure, request: id, route }, "an answer could not be sent");
      exchange.failure = failure instanceof Error ? failure : new Error(String(failure));
      // The rest of the answer will not be sent.
      exchange.isSent = true;
      outgoing.destroy();
    }
  }

  #end(exchange: Exchange): void {
    if (!this.#answers.delete(exchange)) return;
    this.#exchanges.record(exchange);
    exchange.end();
  }

  #send(answer: HttpResponse, exchange: Exchange): void {
    exchange.error = answer.refusal;
    exchange.callId = answer.callId;
    sendWhole(exchange.outgoing, answer, exchange.commonHeaders);
  }

  #routeOf(exchange: Exchange): MethodHandlers {
    const { path } = exchange;
    const found = isPlainQuery(exchange.query)
      ? (findRoute(this.#tables, path) ?? findRoute(this.#leaving, path))
      : undefined;
    if (found === undefined) {
      exchange.owner = this.#ownerWithoutRoute(path);
      const refusal = refusalAt(
        exchange.owner,
        "not_found",
        "There is nothing at this path. Paths are compared byte for byte.",
      );
      for (const { unmatched } of this.#tables.values()) {
        const other = unmatched?.(exchange);
        if (other !== undefined) return { other: (request) => other(request, refusal) };
      }
      throw refusal;
    }
    const { table, owner, handlers } = found;
    exchange.owner = owner;
    exchange.route = handlers.route ?? path;
    if (this.#tables.has(table)) return handlers;
    const headers = { "retry-after": "5" };
    throw refusalAt(
      handlers,
      "shutting_down",
      "jobgate is shutting down: try again soon.",
      headers,
      exchange,
    );
  }

  /**
   * Returns the owner of a path without a route: the owner of its prefix, or else the owner of the first table. Pages
   * of other origins can read the refusal only if they may call every table.
   */
  #ownerWithoutRoute(path: string): TableOwner {
    const owners = [...(this.#tables.size > 0 ? this.#tables : this.#leaving).values()];
    const byPrefix = owners.find(({ prefix }) => prefix !== undefined && path.startsWith(prefix));
    if (byPrefix !== undefined) return byPrefix;
    const [first = UNNAMED] = owners;
    return owners.every(({ cors }) => cors !== undefined) ? first : { listener: first.listener };
  }

  #ownerOf(path: string): TableOwner {
    return findRoute(this.#tables, path)?.owner ?? this.#ownerWithoutRoute(path);
  }

  #refusalParts(incoming: IncomingMessage | undefined): RefusalParts {
    const path = incoming === undefined ? "" : pathOf(incoming);
    const found = findRoute(this.#tables, path);
    const headers = this.#ownerOf(path).cors?.headersFor(incoming?.headers.origin);
    return { refusals: found?.handlers ?? this.#ownerOf(path), headers };
  }

  #refusalOf(error: unknown, { id, route }: Exchange): GatewayError {
    const refusal = refusalOf(error);
    if (refusal !== error)
      this.#logger.error({ err: error, request: id, route }, "request failed unexpectedly");
    return refusal;
  }
}
