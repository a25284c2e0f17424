import type { IncomingMessage, OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { stringify } from "lossless-json";
import type { ErrorCode, GatewayError } from "../core/errors.ts";

/** Names and values of headers. */
export type HeaderPairs = readonly (readonly [name: string, value: string])[];

/** A route's answer. */
export interface HttpResponse {
  readonly status: number;
  readonly headers?: OutgoingHttpHeaders;
  readonly body: string | Uint8Array;
  /** Error code of a refusal, for logs and metrics. */
  readonly refusal?: ErrorCode;
  /** JobCall that the request created, for logs. */
  readonly callId?: number;
  readonly onSent?: OnSent;
}

/** Called once the client has read the whole answer, as far as HTTP shows. The client's next request waits for this call. */
type OnSent = (() => void | Promise<void>) | undefined;

/** An answer whose body arrives over time; each piece is sent at once. */
export interface StreamingResponse {
  readonly status: number;
  readonly headers?: OutgoingHttpHeaders;
  /**
   * Source of the pieces. The next piece is pulled once the client has read the last piece. Must end when {@link
   * HttpRequest.closed} aborts.
   */
  readonly stream: AsyncIterable<string | Uint8Array>;
  readonly onSent?: OnSent;
}

/** Headers of a JSON answer that no cache may keep. */
export const JSON_HEADERS: OutgoingHttpHeaders = Object.freeze({
  "content-type": "application/json",
  "cache-control": "no-store",
});

/**
 * Returns a JSON answer that no cache may keep, unless `headers` say otherwise.
 * A bigint becomes a JSON number with all its digits, because service ids are u64.
 */
export function jsonResponse(
  status: number,
  value: unknown,
  headers: OutgoingHttpHeaders = {},
): HttpResponse {
  return jsonTextResponse(status, stringify(value) ?? "", headers);
}

/** Returns an answer as {@link jsonResponse} does. @param body JSON */
export function jsonTextResponse(
  status: number,
  body: string,
  headers: OutgoingHttpHeaders = {},
): HttpResponse {
  return { status, headers: { ...JSON_HEADERS, ...headers }, body };
}

export function textResponse(status: number, body: string): HttpResponse {
  return { status, headers: { "content-type": "text/plain; charset=utf-8" }, body };
}

/** Returns `{"error": sentence, "code": snake_case, …details}`, the shape of every refusal. */
export function errorResponse(error: GatewayError, details = error.details): HttpResponse {
  const { status, message, code, headers } = error;
  return { ...jsonResponse(status, { error: message, code, ...details }, headers), refusal: code };
}

/** Thrown when another server's answer is larger than any valid answer. */
export class BodyTooLarge extends Error {}

/** Reads the body of another server's answer, up to `maxBytes`. @throws BodyTooLarge */
export async function readBoundedBody(response: Response, maxBytes: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > maxBytes) throw new BodyTooLarge(`the body is larger than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Stops browsers from guessing a type other than the answer's `content-type`. */
export const NO_SNIFF = ["x-content-type-options", "nosniff"] as const;

/**
 * Sends an answer in one write, because Node joins the headers with a body that is text. Headers in a list avoid a copy
 * of the object that a route may share between its answers.
 * @param more headers of every answer of the listener
 */
export function sendWhole(
  outgoing: ServerResponse,
  { status, headers = {}, body }: HttpResponse,
  more: HeaderPairs = [],
): void {
  const list = headerList(headers, more);
  // RFC 9110 §8.6: a 204 has no Content-Length, and a 304 must not send `Content-Length: 0`.
  if (status !== 204 && status !== 304) list.push("content-length", Buffer.byteLength(body));
  outgoing.writeHead(status, list);
  outgoing.end(body);
}

/**
 * Rejects when the stream fails. The connection is then cut, so that the client does not take the answer for complete.
 */
export async function sendStream(
  outgoing: ServerResponse,
  { status, headers = {}, stream }: StreamingResponse,
  more: HeaderPairs,
): Promise<void> {
  outgoing.writeHead(status, headerList(headers, more));
  // The headers are sent at once, so that the client knows that it is connected.
  outgoing.flushHeaders();
  // The source buffers one piece at most, so that a slow client gets the newest state. The error of a failed stream also
  // closes the connection of a client that does not read.
  const source = stream instanceof Readable ? stream : Readable.from(stream, { highWaterMark: 1 });
  // HTTP/1.0 ends an answer by closing the connection, so only a reset shows that an answer is incomplete.
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
 * Ends an answer that is being sent when its client half-closes the connection, because a half-closed connection cannot
 * be told apart from the connection of a client that is gone.
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
 * Emits "close" on a pipelined answer when its connection ends. Node itself emits it only for the first answer in the
 * queue, so the other answers would never close, and their exchanges would never end.
 */
export function closeWithConnection({ socket }: IncomingMessage, outgoing: ServerResponse): void {
  // Only the first answer in the queue already has the socket.
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

/**
 * Time within which a client that has half-closed the connection during an answer resets it. The time is longer than a
 * round trip.
 */
const LEAVING_MS = 1_000;

/**
 * Answers that jobgate has written but that the client may not have read. The kernel buffers hundreds of kilobytes, and
 * drops them if the connection breaks.
 */
export class UntakenAnswers {
  readonly #quietMs: number;
  readonly #bySocket = new WeakMap<Socket, Set<() => void | Promise<void>>>();

  /** @param quietMs milliseconds of silence on the connection after which the client is taken to have read an answer */
  constructor(quietMs: number) {
    this.#quietMs = quietMs;
  }

  /**
   * Calls the listener once the client has read the answer, which shows in a further request, a half-close, or silence. Does
   * not call it if the connection is reset, or if jobgate closes the connection first.
   */
  watch(outgoing: ServerResponse, onTaken: NonNullable<OnSent>): void {
    // This listener runs before Node ends the connection of a last answer.
    outgoing.prependOnceListener("finish", () => {
      const { socket } = outgoing.req;
      if (!socket.destroyed) this.#watch(socket, onTaken);
    });
  }

  /**
   * Notes that a client begins its next request. @returns a promise that the request must await, so that earlier answers are
   * marked as read
   */
  next(socket: Socket): Promise<unknown> | undefined {
    const answers = this.#bySocket.get(socket);
    return answers && Promise.all(Array.from(answers, async (taken) => taken()));
  }

  #watch(socket: Socket, onTaken: NonNullable<OnSent>): void {
    const answers = this.#bySocket.get(socket) ?? new Set();
    this.#bySocket.set(socket, answers);
    const stop = () => {
      clearTimeout(timer);
      socket.off("end", onEnd).off("close", stop);
      answers.delete(taken);
      if (answers.size > 0) return;
      this.#bySocket.delete(socket);
      letEnd(socket);
    };
    const taken = () => {
      stop();
      return onTaken();
    };
    const decide = () => void (isConnected(socket) ? taken() : stop());
    const onEnd = () => {
      clearTimeout(timer);
      // If both sides are closed, a reset can no longer be detected.
      if (socket.writableEnded) void taken();
      else timer = setTimeout(decide, LEAVING_MS).unref();
    };
    let timer = setTimeout(decide, this.#quietMs).unref();
    answers.add(taken);
    keepOpen(socket);
    socket.once("end", onEnd).once("close", stop);
  }
}

/** Connections that are kept open. `isEnding` is true if Node would have ended the connection. */
const kept = new WeakMap<Socket, { isEnding: boolean }>();

/** Keeps open a connection that its client has half-closed, because only an open connection shows a reset. */
function keepOpen(socket: Socket): void {
  if (kept.has(socket)) return;
  const state = { isEnding: false };
  kept.set(socket, state);
  const end = (...last: unknown[]) => {
    if (socket.readableEnded && last.length === 0) state.isEnding = true;
    else Reflect.apply(Socket.prototype.end, socket, last);
    return socket;
  };
  const destroySoon = () => {
    state.isEnding = true;
    if (!socket.readableEnded) Reflect.apply(Socket.prototype.end, socket, []);
  };
  Object.assign(socket, { end, destroySoon });
}

function letEnd(socket: Socket): void {
  const { isEnding } = kept.get(socket) ?? { isEnding: false };
  kept.delete(socket);
  for (const name of ["end", "destroySoon"]) Reflect.deleteProperty(socket, name);
  if (isEnding) socket.destroySoon();
}

/** Node's handle of a TCP connection, which queries the operating system. */
interface Handle {
  getpeername?(into: object): number;
}

/**
 * Returns true if a half-closed connection still exists. Node stops reading after the client's FIN, so it does not notice a
 * reset, but `getpeername` queries the kernel. A reset of a Unix socket closes it in Node.
 */
function isConnected(socket: Socket): boolean {
  if (socket.destroyed) return false;
  const { _handle: handle } = socket as Socket & { readonly _handle?: Handle | null };
  return (handle?.getpeername?.({}) ?? 0) === 0;
}
