import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { GatewayError } from "../core/errors.ts";
import { errorResponse } from "./response.ts";
import type { MethodHandlers } from "./routes.ts";

/** How long a refused client gets to read its answer: cutting it off at once would often lose the answer too. */
const LINGER_MS = 2_000;

/** Connections that were answered already: what still comes in on them is dropped. */
const refused = new WeakSet<Duplex>();

/**
 * Answers what the HTTP parser refused, in the shape of every other refusal, and hangs up.
 * @param handlers of the path that the request is for, when its headers had arrived
 * @returns how it was refused; undefined when nobody is there, or was answered before
 */
export function refuseBrokenRequest(
  error: NodeJS.ErrnoException,
  socket: Duplex,
  handlers?: MethodHandlers,
): GatewayError | undefined {
  if (refused.has(socket)) return undefined;
  if (!(socket as Socket).writable || error.code === "ECONNRESET") {
    socket.destroy();
    return undefined;
  }
  refused.add(socket);

  const refusal = refusalOf(error);
  const { body } = errorResponse(refusal, handlers?.refusalDetails?.(refusal.code));
  socket.end(
    `HTTP/1.1 ${refusal.status} Refused\r\nconnection: close\r\ncontent-type: application/json\r\n` +
      `cache-control: no-store\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  // A client that never closes its side would hold the connection for ever.
  const cut = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once("close", () => clearTimeout(cut));
  return refusal;
}

function refusalOf({ code }: NodeJS.ErrnoException): GatewayError {
  if (code === "HPE_HEADER_OVERFLOW")
    return new GatewayError("headers_too_large", "The request's headers are larger than is allowed here.");
  if (code === "ERR_HTTP_REQUEST_TIMEOUT")
    return new GatewayError("request_timeout", "The request took too long to arrive.");
  return new GatewayError("bad_request", "This is not a well-formed HTTP/1.1 request.");
}
