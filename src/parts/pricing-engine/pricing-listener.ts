import { once } from "node:events";
import {
  createServer,
  type Server as HttpServer,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import { type ClientHttp2Session, connect } from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { duplexPair } from "node:stream";
import { type Server as GrpcServer, ServerCredentials } from "@grpc/grpc-js";
import type { Logger } from "pino";
import { GatewayError } from "../../core/errors.ts";
import { addressText, type TcpAddress } from "../../core/network-address.ts";
import { answerGrpcWeb } from "../../grpc/grpc-web.ts";
import { AnswersInProgress } from "../../http/answers-in-progress.ts";
import { Cors } from "../../http/cors.ts";
import { hasKnownFraming } from "../../http/request.ts";
import { closeWithConnection, errorResponse, sendWhole } from "../../http/response.ts";

/** Start of an HTTP/2 connection. No HTTP/1.1 method starts like this. */
const HTTP2_PREFACE = "PRI ";
/** Time for a connection's first bytes, and for the headers of a gRPC-Web call. */
const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;
const MAX_HEADER_BYTES = 32 * 1024;
/** Time that clients have to receive the last answers when the server stops. */
const FLUSH_TIMEOUT_MS = 1_000;
const TCP_KEEP_ALIVE_MS = 30_000;
/** Time for which a begun response goes on after the client half-closes, which cannot be told apart from a lost client. */
const READER_LINGER_MS = 2_000;
const METHODS = "POST, OPTIONS";
/** Pages send what their gRPC-Web client adds. `*` would not cover the Authorization header. */
const CORS = new Cors({ origins: ["*"], exposes: "*" });
/** Headers of every answer. */
const CORS_HEADERS = CORS.headersFor(undefined);

/**
 * TCP listener of a gRPC server that serves gRPC over plaintext HTTP/2, and gRPC-Web over HTTP/1.1 to pages of any
 * origin, without credentials. The first bytes of a connection show its protocol.
 */
export class PricingListener {
  readonly #grpc: ReturnType<GrpcServer["createConnectionInjector"]>;
  readonly #http: HttpServer;
  readonly #logger: Logger;
  /** Connections that have sent too few bytes to show their protocol. */
  readonly #silent = new Set<Socket>();
  readonly #answers = new AnswersInProgress();
  /** Connections to the gRPC server, one for each HTTP/1.1 connection that has called it. */
  readonly #sessions = new WeakMap<Socket, ClientHttp2Session>();

  constructor(server: GrpcServer, logger: Logger) {
    this.#grpc = server.createConnectionInjector(ServerCredentials.createInsecure());
    this.#logger = logger;
    this.#http = createServer(
      {
        maxHeaderSize: MAX_HEADER_BYTES,
        headersTimeout: HEADERS_TIMEOUT_MS,
        requestTimeout: REQUEST_TIMEOUT_MS,
        keepAlive: true,
        keepAliveInitialDelay: TCP_KEEP_ALIVE_MS,
      },
      (incoming, outgoing) => this.#track(incoming, outgoing),
    );
    const [acceptHttp] = this.#http.listeners("connection");
    this.#http.removeAllListeners("connection");
    this.#http.on("connection", (socket) => this.#accept(socket, () => acceptHttp?.call(this.#http, socket)));
    this.#answers.protect(this.#http, { allow: METHODS, refusalParts: () => ({ headers: CORS_HEADERS }) });
  }

  /** @returns `host:port` as bound */
  async listen(address: TcpAddress): Promise<string> {
    this.#http.listen({ host: address.host, port: address.port });
    await once(this.#http, "listening");
    this.#http.on("error", (error) => this.#logger.error({ err: error }, "gRPC listener failed"));
    return addressText({ ...address, port: (this.#http.address() as AddressInfo).port });
  }

  /** Stops accepting connections. Calls in progress go on. */
  stopListening(): void {
    this.#http.close();
    for (const socket of this.#silent) socket.destroy();
  }

  /** Ends the HTTP/1.1 connections that are left once the gRPC server is closed, which ends the other connections. */
  async close(): Promise<void> {
    const cut = setTimeout(() => this.#http.closeAllConnections(), FLUSH_TIMEOUT_MS);
    await this.#answers.settle();
    clearTimeout(cut);
    this.#http.closeAllConnections();
  }

  #accept(socket: Socket, acceptHttp: () => void): void {
    let head = Buffer.alloc(0);
    const read = () => {
      head = Buffer.concat([head, (socket.read() as Buffer | null) ?? Buffer.alloc(0)]);
      const start = head.toString("latin1", 0, HTTP2_PREFACE.length);
      if (start.length < HTTP2_PREFACE.length && HTTP2_PREFACE.startsWith(start)) return;
      forget();
      socket.unshift(head);
      if (start === HTTP2_PREFACE) this.#grpc.injectConnection(socket);
      else acceptHttp();
    };
    const destroy = () => socket.destroy();
    const timer = setTimeout(destroy, HEADERS_TIMEOUT_MS);
    const forget = () => {
      clearTimeout(timer);
      this.#silent.delete(socket);
      socket.off("readable", read).off("error", destroy).off("end", destroy).off("close", forget);
    };
    this.#silent.add(socket);
    socket.on("readable", read).on("error", destroy).on("end", destroy).on("close", forget);
  }

  #track(incoming: IncomingMessage, outgoing: ServerResponse): void {
    closeWithConnection(incoming, outgoing);
    const { socket } = incoming;
    const readerClosed = () => cutWithoutReader(incoming, outgoing);
    socket.once("end", readerClosed);
    const sent = new Promise<void>((resolve) => outgoing.once("close", resolve));
    const ended = this.#answer(incoming, outgoing)
      .catch((error: unknown) => {
        this.#logger.error({ err: error }, "an answer could not be sent");
        outgoing.destroy();
      })
      .then(() => sent)
      .finally(() => {
        socket.off("end", readerClosed);
        this.#answers.delete(answer);
      });
    const answer = { incoming, ended };
    this.#answers.add(answer);
  }

  async #answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    for (const [name, value] of CORS_HEADERS) outgoing.setHeader(name, value);
    if (!this.#http.listening) outgoing.setHeader("connection", "close");
    try {
      if (incoming.method === "OPTIONS") sendWhole(outgoing, CORS.preflight(incoming, METHODS));
      else if (incoming.method !== "POST") throw methodNotAllowed();
      else if (!hasKnownFraming(incoming)) throw unknownFraming();
      else await answerGrpcWeb(incoming, outgoing, () => this.#sessionOf(incoming.socket));
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      sendWhole(outgoing, errorResponse(error));
    }
  }

  #sessionOf(socket: Socket): ClientHttp2Session {
    const open = this.#sessions.get(socket);
    if (open !== undefined && !open.closed && !open.destroyed) return open;
    const [ours, theirs] = duplexPair();
    this.#grpc.injectConnection(theirs);
    const session = connect("http://localhost", { createConnection: () => ours });
    // Each call learns of the error by itself.
    session.on("error", () => undefined);
    if (open === undefined) socket.once("close", () => this.#sessions.get(socket)?.destroy());
    this.#sessions.set(socket, session);
    return session;
  }
}

/** Cuts a response that goes on too long after the client half-closes, because a stream may never end by itself. */
function cutWithoutReader({ socket }: IncomingMessage, outgoing: ServerResponse): void {
  setTimeout(() => {
    if (outgoing.headersSent && !outgoing.writableEnded) socket.destroy();
  }, READER_LINGER_MS).unref();
}

function unknownFraming(): GatewayError {
  return new GatewayError("bad_request", "Transfer-Encoding can only be chunked, sent once.", {
    headers: { connection: "close" },
  });
}

function methodNotAllowed(): GatewayError {
  return new GatewayError("method_not_allowed", "gRPC-Web calls are POST requests.", {
    headers: { allow: METHODS },
  });
}
