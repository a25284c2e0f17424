import { chmodSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Logger } from "pino";
import type { BindAddress } from "../config/config.ts";
import { GatewayError } from "../errors.ts";
import { ClientGone, toHttpRequest } from "./http-request.ts";
import { errorResponse, type HttpResponse } from "./http-response.ts";
import { dispatch, type RouteTable } from "./routes.ts";

export interface HttpServerOptions {
  readonly address: BindAddress;
  readonly logger: Logger;
}

/** Most bytes of request line and headers together; a payment header is 1 to 4 KiB. */
const MAX_HEADER_BYTES = 32 * 1024;
/** A client has this long to send its headers, and this long for the whole request. */
const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;
const KEEP_ALIVE_TIMEOUT_MS = 65_000;
/** How long requests in hand may take when stopping, settlements included, before their sockets are cut. */
const STOP_TIMEOUT_MS = 90_000;

/**
 * One socket that serves the routes mounted on it. Gateways configured with one address share one server:
 * it listens from the first mount to the last unmount.
 */
export class HttpServer {
  readonly #options: HttpServerOptions;
  readonly #tables = new Set<RouteTable>();
  readonly #requestsInHand = new Set<Promise<void>>();
  #server: Server | undefined;
  #listening: Promise<void> | undefined;
  #requestCount = 0;

  constructor(options: HttpServerOptions) {
    this.#options = options;
  }

  /** Adds routes, and starts to listen if these are the first. Rejects when the address cannot be bound. */
  async mount(routes: RouteTable): Promise<void> {
    this.#tables.add(routes);
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
    if (!this.#tables.delete(routes)) return;
    if (this.#tables.size > 0) {
      await Promise.allSettled([...this.#requestsInHand]);
      return;
    }
    await this.#close();
  }

  /** `host:port` with the port that was really bound, or `unix:path`. */
  get address(): string {
    const { address } = this.#options;
    if (address.kind === "unix") return `unix:${address.path}`;
    const bound = this.#server?.address() as AddressInfo | null | undefined;
    const host = address.host.includes(":") ? `[${address.host}]` : address.host;
    return `${host}:${bound?.port ?? address.port}`;
  }

  #listen(): Promise<void> {
    const server = createServer(
      {
        maxHeaderSize: MAX_HEADER_BYTES,
        headersTimeout: HEADERS_TIMEOUT_MS,
        requestTimeout: REQUEST_TIMEOUT_MS,
        keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
        connectionsCheckingInterval: 1_000,
      },
      (incoming, outgoing) => {
        const done = this.#answer(incoming, outgoing).finally(() => this.#requestsInHand.delete(done));
        this.#requestsInHand.add(done);
      },
    );
    server.on("clientError", refuseMalformed);
    this.#server = server;
    const { address, logger } = this.#options;
    const target =
      address.kind === "unix" ? { path: address.path } : { host: address.host, port: address.port };
    return new Promise((resolve, reject) => {
      server.once("error", reject);
      server.listen(target, () => {
        server.off("error", reject);
        server.on("error", (error) => logger.error({ err: error }, "HTTP listener failed"));
        // Whoever may connect may do what the operator may: only the user that jobgate runs as.
        if (address.kind === "unix") chmodSync(address.path, 0o600);
        resolve();
      });
    });
  }

  async #close(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    const cut = setTimeout(() => server.closeAllConnections(), STOP_TIMEOUT_MS);
    await Promise.allSettled([...this.#requestsInHand]);
    server.closeIdleConnections();
    await closed;
    clearTimeout(cut);
    this.#listening = undefined;
  }

  async #answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    // Once nothing is mounted the server is stopping: clients on a kept-alive connection are to go elsewhere.
    if (this.#tables.size === 0) outgoing.setHeader("connection", "close");
    const request = toHttpRequest(incoming, `r${++this.#requestCount}`);
    try {
      if (this.#tables.size === 0)
        throw new GatewayError("shutting_down", "jobgate is shutting down: try again soon.");
      send(outgoing, await dispatch(this.#tables, request));
    } catch (error) {
      if (error instanceof ClientGone) return void outgoing.destroy();
      if (error instanceof GatewayError) return send(outgoing, errorResponse(error));
      this.#options.logger.error(
        { err: error, request: request.id, path: request.path },
        "request failed unexpectedly",
      );
      send(
        outgoing,
        errorResponse(new GatewayError("internal_error", "Something went wrong inside jobgate.")),
      );
    }
  }
}

function send(outgoing: ServerResponse, response: HttpResponse): void {
  const body = typeof response.body === "string" ? Buffer.from(response.body) : response.body;
  outgoing.writeHead(response.status, { ...response.headers, "content-length": body.byteLength });
  outgoing.end(body);
}

/** Answers what the HTTP parser refused, in the shape of every other refusal, and hangs up. */
function refuseMalformed(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (!(socket as Socket).writable || error.code === "ECONNRESET") return void socket.destroy();
  const refusal =
    error.code === "HPE_HEADER_OVERFLOW"
      ? new GatewayError(
          "headers_too_large",
          `The request's headers are larger than ${MAX_HEADER_BYTES} bytes.`,
        )
      : error.code === "ERR_HTTP_REQUEST_TIMEOUT"
        ? new GatewayError("request_timeout", "The request took too long to arrive.")
        : new GatewayError("bad_request", "This is not a well-formed HTTP/1.1 request.");
  const body = errorResponse(refusal).body;
  socket.end(
    `HTTP/1.1 ${refusal.status} Refused\r\nconnection: close\r\ncontent-type: application/json\r\n` +
      `cache-control: no-store\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
}
