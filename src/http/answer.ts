import type { IncomingMessage, OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { type Duplex, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { GatewayError } from "../core/errors.ts";
import type { HeaderPairs } from "./cors.ts";
import { errorResponse, type HttpResponse, type StreamingResponse } from "./response.ts";
import type { MethodHandlers, TableOwner } from "./routes.ts";

/** Parts of a refusal that depend on the request's path and origin. */
export interface RefusalParts {
  /** Handlers of the path when the request's headers arrived, or the listener's owner. */
  readonly refusals?: MethodHandlers | TableOwner | undefined;
  /** Headers of every answer there. */
  readonly headers?: HeaderPairs | undefined;
}

/** Stops browsers from guessing another type than the answer's `content-type`. */
export const NO_SNIFF = ["x-content-type-options", "nosniff"] as const;

/** Time that a refused client has to read its answer: cutting it off at once would often lose the answer too. */
const LINGER_MS = 2_000;

/**
 * Sends an answer in one write: Node joins the headers and a body of text, and headers in a list need no copy of the
 * object that a route may share between its answers.
 * @param more headers of every answer of the listener
 */
export function sendWhole(
  outgoing: ServerResponse,
  { status, headers = {}, body }: HttpResponse,
  more: HeaderPairs = [],
): void {
  const list = headerList(headers, more);
  // RFC 9110 §8.6: a 204 has no Content-Length, and a 304 must not have that of its own empty body.
  if (status !== 204 && status !== 304) list.push("content-length", Buffer.byteLength(body));
  outgoing.writeHead(status, list);
  outgoing.end(body);
}

/** Rejects when the stream fails; the connection is then cut, so that the answer does not pass for complete. */
export async function sendStream(
  outgoing: ServerResponse,
  { status, headers = {}, stream }: StreamingResponse,
  more: HeaderPairs,
): Promise<void> {
  outgoing.writeHead(status, headerList(headers, more));
  // The client learns that it is connected before there is anything to send.
  outgoing.flushHeaders();
  // One piece is buffered at most, so that a slow client gets the newest state. A stream that fails also cuts a client that takes nothing.
  const source = stream instanceof Readable ? stream : Readable.from(stream, { highWaterMark: 1 });
  // HTTP/1.0 ends an answer by closing the connection, so an answer that breaks off needs a reset.
  if (outgoing.req.httpVersion === "1.0") source.once("error", () => reset(outgoing.socket));
  try {
    await pipeline(source, outgoing);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_STREAM_PREMATURE_CLOSE") throw error;
  }
}

function reset(socket: Socket | null): void {
  try {
    socket?.resetAndDestroy();
  } catch {
    // A Unix socket cannot be reset.
    socket?.destroy();
  }
}

function headerList(headers: OutgoingHttpHeaders, more: HeaderPairs): OutgoingHttpHeader[] {
  const list: OutgoingHttpHeader[] = [...NO_SNIFF];
  for (const [name, value] of more) list.push(name, value);
  for (const name in headers) list.push(name, headers[name] as OutgoingHttpHeader);
  return list;
}

/**
 * Ends an answer that is already arriving over time when its reader closes his side: one that is gone looks the same.
 */
export function endWithReader({ socket }: IncomingMessage, outgoing: ServerResponse): void {
  const hangUp = () => {
    if (outgoing.headersSent && !outgoing.writableEnded) socket.destroy();
  };
  socket.once("end", hangUp);
  outgoing.once("close", () => socket.off("end", hangUp));
}

const queued = new WeakMap<Socket, Set<ServerResponse>>();

/**
 * Emits "close" on a pipelined answer when its connection ends. Node does that only for the first answer in the queue;
 * the others would never close, and their exchanges would never end.
 */
export function closeWithConnection({ socket }: IncomingMessage, outgoing: ServerResponse): void {
  // Only the first answer in the queue has the socket already.
  if (outgoing.socket !== null) return;
  const answers = queued.get(socket) ?? new Set();
  if (!queued.has(socket)) {
    queued.set(socket, answers);
    socket.once("close", () => {
      for (const answer of answers) answer.emit("close");
    });
  }
  answers.add(outgoing);
  outgoing.once("close", () => answers.delete(outgoing));
}

/** Connections whose malformed request is answered already: further bytes on them are dropped. */
const refused = new WeakSet<Duplex>();

/**
 * Answers a request that the HTTP parser rejected with the JSON of every other refusal, and hangs up.
 * @returns the refusal; undefined when the client is gone or was answered before
 */
export function refuseBrokenRequest(
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

/** Returns true when there is nobody left to read an answer. */
export function isGone({ code }: NodeJS.ErrnoException, socket: Duplex): boolean {
  return !(socket as Socket).writable || code === "ECONNRESET";
}

/** Writes a refusal to a connection that has no answer in progress, and hangs up. */
export function hangUpWith(refusal: GatewayError, socket: Duplex, parts: RefusalParts = {}): void {
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
