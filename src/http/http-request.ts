import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { GatewayError } from "../errors.ts";

/** One HTTP request as the routes see it. Nothing in it has been decoded or normalised. */
export interface HttpRequest {
  /** Unique in this process's logs. */
  readonly id: string;
  readonly method: string;
  /** The request target up to `?`, exactly as it was sent: percent-encoding, dots and doubled slashes included. */
  readonly path: string;
  /** What comes after `?` in the request target, as it was sent. */
  readonly query: string;
  /** Names in lower case; Node's joining rules for repeated ones. */
  readonly headers: IncomingHttpHeaders;
  readonly remoteAddress: string;
  /** Aborts when the exchange is over: the answer has been sent, or the client has hung up. */
  readonly closed: AbortSignal;
  /** Every value of a header, one for each time it was sent. `name` is lower case. */
  headerValues(name: string): readonly string[];
  /**
   * The whole body, as received (no content decoding).
   * @throws GatewayError `body_too_large` above `maxBytes`; {@link ClientGone} if the client hangs up first
   */
  readBody(maxBytes: number): Promise<Uint8Array>;
}

/** The client hung up before its request was complete: there is nobody to answer. */
export class ClientGone extends Error {
  override readonly name = "ClientGone";
}

export function toHttpRequest(incoming: IncomingMessage, outgoing: ServerResponse, id: string): HttpRequest {
  const target = incoming.url ?? "";
  const queryStart = target.indexOf("?");
  let closed: AbortSignal | undefined;
  return {
    id,
    method: incoming.method ?? "",
    path: queryStart < 0 ? target : target.slice(0, queryStart),
    query: queryStart < 0 ? "" : target.slice(queryStart + 1),
    headers: incoming.headers,
    remoteAddress: incoming.socket.remoteAddress ?? "",
    get closed() {
      closed ??= closedSignal(incoming, outgoing);
      return closed;
    },
    headerValues: (name) => incoming.headersDistinct[name] ?? [],
    readBody: (maxBytes) => readBody(incoming, maxBytes),
  };
}

function closedSignal(incoming: IncomingMessage, outgoing: ServerResponse): AbortSignal {
  if (outgoing.closed || incoming.socket.destroyed) return AbortSignal.abort();
  const controller = new AbortController();
  outgoing.once("close", () => controller.abort());
  return controller.signal;
}

function readBody(incoming: IncomingMessage, maxBytes: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const refuse = () =>
      reject(
        new GatewayError("body_too_large", `The body is larger than the ${maxBytes} bytes allowed here.`),
      );
    // A client that hung up before anyone read has already caused its last event.
    if (incoming.destroyed) return reject(new ClientGone("The client hung up while sending its body."));
    // Node has already refused a Content-Length that is not a number.
    if (Number(incoming.headers["content-length"] ?? 0) > maxBytes) return refuse();

    const chunks: Buffer[] = [];
    let size = 0;
    incoming.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size > maxBytes) {
        // Keep reading and drop what comes, so that the client gets to see the answer; the request time-out bounds it.
        chunks.length = 0;
        refuse();
      } else {
        chunks.push(chunk);
      }
    });
    incoming.on("end", () => resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)));
    incoming.on("error", (cause) =>
      reject(new ClientGone("The client hung up while sending its body.", { cause })),
    );
    incoming.on("close", () => reject(new ClientGone("The client hung up while sending its body.")));
  });
}
