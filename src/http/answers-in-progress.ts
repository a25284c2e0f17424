import type { IncomingMessage, Server } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { GatewayError } from "../core/errors.ts";
import { errorResponse, type HeaderPairs, NO_SNIFF } from "./response.ts";
import type { MethodHandlers, TableOwner } from "./routes.ts";

/** Time for which a refused client can read its answer. Closing the connection at once would often lose the answer. */
const LINGER_MS = 2_000;

/** Parts of a refusal that depend on the request's path and origin. */
export interface RefusalParts {
  /** Handlers that the path had when the request's headers arrived, or the owner of the listener. */
  readonly refusals?: MethodHandlers | TableOwner | undefined;
  /** Headers of every answer at that path. */
  readonly headers?: HeaderPairs | undefined;
}

/** An answer that is not sent yet, or whose route has more to do. */
interface AnswerInProgress {
  readonly incoming: IncomingMessage;
  /** Resolves once the answer is over. Never rejects. */
  readonly ended: Promise<void>;
}

/**
 * Answers in progress on the connections of a server, so that later requests on a connection cannot cut off an earlier
 * answer.
 */
export class AnswersInProgress {
  readonly #answers = new Set<AnswerInProgress>();
  /** Connections with a malformed request that is answered after the requests before it. */
  readonly #refusing = new WeakSet<Duplex>();

  get size(): number {
    return this.#answers.size;
  }

  add(answer: AnswerInProgress): void {
    this.#answers.add(answer);
  }

  /** @returns false if the answer was not in progress */
  delete(answer: AnswerInProgress): boolean {
    return this.#answers.delete(answer);
  }

  /** Resolves once the answers that are in progress at the time of the call are over. */
  async settle(): Promise<void> {
    await Promise.all(Array.from(this.#answers, ({ ended }) => ended));
  }

  /** Closes the connections whose request has not arrived completely. */
  cutUploads(): void {
    for (const { incoming } of this.#answers) if (!incoming.complete) incoming.socket.destroy();
  }

  /**
   * Lets clients half-close after a whole request. Answers CONNECT and malformed requests after the complete requests before
   * them.
   */
  protect(
    server: Server,
    options: {
      /** Methods that the refusal of CONNECT lists. */
      readonly allow: string;
      /** Completes the refusal of a request, whose headers may not have arrived. */
      readonly refusalParts?: (incoming: IncomingMessage | undefined) => RefusalParts;
      /** Called for each refusal of bytes that are not recorded as a request. */
      readonly onRefused?: (refusal: GatewayError) => void;
    },
  ): void {
    const { allow, refusalParts, onRefused } = options;
    // A client may half-close once its request is complete, as `nc -N` and some proxies do, and still read the answer.
    Object.assign(server, { httpAllowHalfOpen: true });
    // Each pipelined request can add a listener for the client's end.
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
      // Without this wait, the client would take the refusal for the answer to an earlier request that is still in progress.
      if (!isGone(error, socket)) await this.#settleOn(socket);
      const incoming = this.#firstOn(socket);
      const refusal = refuseBrokenRequest(error, socket, refusalParts?.(incoming));
      // A request whose headers arrived is recorded as an exchange of its own.
      if (refusal !== undefined && incoming === undefined) onRefused?.(refusal);
    };
    server.on("clientError", (error, socket) => void refuse(error, socket));
  }

  #firstOn(socket: Duplex): IncomingMessage | undefined {
    for (const { incoming } of this.#answers) if (incoming.socket === socket) return incoming;
    return undefined;
  }

  /** Resolves once the complete requests on this connection are answered. */
  async #settleOn(socket: Duplex): Promise<void> {
    const whole = [...this.#answers].filter(
      ({ incoming }) => incoming.socket === socket && incoming.complete,
    );
    await Promise.all(whole.map(({ ended }) => ended));
  }
}

/** Connections whose malformed request was answered. Further bytes on them are dropped. */
const refused = new WeakSet<Duplex>();

/**
 * Answers a request that the HTTP parser rejected in the JSON form of all refusals, and closes the connection.
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

/** Returns true if the client is gone and cannot read an answer. */
function isGone({ code }: NodeJS.ErrnoException, socket: Duplex): boolean {
  return !(socket as Socket).writable || code === "ECONNRESET";
}

/** Writes a refusal to a connection that has no answer in progress, and closes the connection. */
function hangUpWith(refusal: GatewayError, socket: Duplex, parts: RefusalParts = {}): void {
  refused.add(socket);
  // Node removes its listeners from a connection that sent CONNECT.
  socket.on("error", () => socket.destroy());
  const { body, headers = {} } = errorResponse(refusal, parts.refusals?.refusalDetails?.(refusal.code));
  const pairs = [NO_SNIFF, ...(parts.headers ?? []), ...Object.entries(headers)];
  const lines = pairs.map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(
    `HTTP/1.1 ${refusal.status} Refused\r\nconnection: close\r\n${lines.join("")}` +
      `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  // Without the timer, a client that never closes its side would keep the connection open forever.
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
