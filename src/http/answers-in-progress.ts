import type { IncomingMessage, Server } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { GatewayError } from "../core/errors.ts";
import { errorResponse, type HeaderPairs, NO_SNIFF } from "./response.ts";
import type { MethodHandlers, TableOwner } from "./routes.ts";

/** Time that a refused client has to read its answer: cutting it off at once would often lose the answer too. */
const LINGER_MS = 2_000;

/** Parts of a refusal that depend on the request's path and origin. */
export interface RefusalParts {
  /** Handlers of the path when the request's headers arrived, or the listener's owner. */
  readonly refusals?: MethodHandlers | TableOwner | undefined;
  /** Headers of every answer there. */
  readonly headers?: HeaderPairs | undefined;
}

/** An answer that is not sent yet, or whose route has more to do. */
interface AnswerInProgress {
  readonly incoming: IncomingMessage;
  /** Resolves once it is over. Never rejects. */
  readonly ended: Promise<void>;
}

/** Answers in progress on the connections of a server, so that none is lost to what follows its request. */
export class AnswersInProgress {
  readonly #answers = new Set<AnswerInProgress>();
  /** Connections with a malformed request that is answered after those before it. */
  readonly #refusing = new WeakSet<Duplex>();

  get size(): number {
    return this.#answers.size;
  }

  add(answer: AnswerInProgress): void {
    this.#answers.add(answer);
  }

  /** @returns false if it was not in progress */
  delete(answer: AnswerInProgress): boolean {
    return this.#answers.delete(answer);
  }

  /** Resolves once the answers that are in progress now are over. */
  async settle(): Promise<void> {
    await Promise.all(Array.from(this.#answers, ({ ended }) => ended));
  }

  /** Cuts the connections whose request has not arrived whole. */
  cutUploads(): void {
    for (const { incoming } of this.#answers) if (!incoming.complete) incoming.socket.destroy();
  }

  /**
   * Lets clients close their side after a whole request, and answers CONNECT and malformed requests after the requests
   * that arrived whole before them.
   */
  protect(
    server: Server,
    options: {
      /** Methods to name in the refusal of CONNECT. */
      readonly allow: string;
      /** Completes the refusal of a request. Its headers have not always arrived. */
      readonly refusalParts?: (incoming: IncomingMessage | undefined) => RefusalParts;
      /** Called for each refusal of a request that cannot be recorded as itself. */
      readonly onRefused?: (refusal: GatewayError) => void;
    },
  ): void {
    const { allow, refusalParts, onRefused } = options;
    // A client may close its side once its request is whole, as `nc -N` and some proxies do, and still read the answer.
    Object.assign(server, { httpAllowHalfOpen: true });
    // Each pipelined request may listen for the client's end.
    server.on("connection", (socket) => socket.setMaxListeners(0));
    server.on("connect", (incoming, socket) => {
      const message = "CONNECT is not supported: this is not a proxy.";
      const refusal = new GatewayError("method_not_allowed", message, { headers: { allow } });
      onRefused?.(refusal);
      socket.on("error", () => socket.destroy());
      void this.#settleOn(socket).then(() => hangUpWith(refusal, socket, refusalParts?.(incoming)));
    });
    const refuse = async (error: Error, socket: Duplex): Promise<void> => {
      if (this.#refusing.has(socket)) return;
      this.#refusing.add(socket);
      // The refusal would pass for the answer to an earlier request that is still in progress.
      if (!isGone(error, socket)) await this.#settleOn(socket);
      const incoming = this.#firstOn(socket);
      const refusal = refuseBrokenRequest(error, socket, refusalParts?.(incoming));
      // A request that began well is recorded as itself.
      if (refusal !== undefined && incoming === undefined) onRefused?.(refusal);
    };
    server.on("clientError", (error, socket) => void refuse(error, socket));
  }

  #firstOn(socket: Duplex): IncomingMessage | undefined {
    for (const { incoming } of this.#answers) if (incoming.socket === socket) return incoming;
    return undefined;
  }

  /** Resolves once the requests that arrived whole on this connection are answered. */
  async #settleOn(socket: Duplex): Promise<void> {
    const whole = [...this.#answers].filter(
      ({ incoming }) => incoming.socket === socket && incoming.complete,
    );
    await Promise.all(whole.map(({ ended }) => ended));
  }
}

/** Connections whose malformed request is answered already: further bytes on them are dropped. */
const refused = new WeakSet<Duplex>();

/**
 * Answers a request that the HTTP parser rejected with the JSON of every other refusal, and hangs up.
 * @returns the refusal; undefined when the client is gone or was answered before
 */
function refuseBrokenRequest(
  error: NodeJS.ErrnoException,
  socket: Duplex,
  parts?: RefusalParts,
): GatewayError | undefined {
  if (refused.has(socket)) return undefined;
  if (isGone(error, socket)) {
    socket.destroy();
    return undefined;
  }
  const refusal = parserRefusal(error);
  hangUpWith(refusal, socket, parts);
  return refusal;
}

/** Reports whether the client is gone and reads no answer. */
function isGone({ code }: NodeJS.ErrnoException, socket: Duplex): boolean {
  return !(socket as Socket).writable || code === "ECONNRESET";
}

/** Writes a refusal to a connection that has no answer in progress, and hangs up. */
function hangUpWith(refusal: GatewayError, socket: Duplex, parts: RefusalParts = {}): void {
  refused.add(socket);
  // Node no longer listens to a connection that sent CONNECT.
  socket.on("error", () => socket.destroy());
  const { body, headers = {} } = errorResponse(refusal, parts.refusals?.refusalDetails?.(refusal.code));
  const pairs = [NO_SNIFF, ...(parts.headers ?? []), ...Object.entries(headers)];
  const lines = pairs.map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(
    `HTTP/1.1 ${refusal.status} Refused\r\nconnection: close\r\n${lines.join("")}` +
      `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  // A client that never closes its side would hold the connection for ever.
  const cut = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once("close", () => clearTimeout(cut));
}

function parserRefusal({ code }: NodeJS.ErrnoException): GatewayError {
  if (code === "HPE_HEADER_OVERFLOW")
    return new GatewayError("headers_too_large", "The request's headers are larger than is allowed here.");
  if (code === "ERR_HTTP_REQUEST_TIMEOUT")
    return new GatewayError("request_timeout", "The request took too long to arrive.");
  return new GatewayError("bad_request", "This is not a well-formed HTTP/1.1 request.");
}
