import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Uploads } from "./uploads.ts";

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
  /** See {@link Uploads.readBody}. */
  readBody(maxBytes: number): Promise<Uint8Array>;
}

export function toHttpRequest(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  { id, uploads }: { readonly id: string; readonly uploads: Uploads },
): HttpRequest {
  const target = incoming.url ?? "";
  const path = pathOf(incoming);
  let closed: AbortSignal | undefined;
  return {
    id,
    method: incoming.method ?? "",
    path,
    query: target.slice(path.length + 1),
    headers: incoming.headers,
    remoteAddress: incoming.socket.remoteAddress ?? "",
    get closed() {
      closed ??= closedSignal(incoming, outgoing);
      return closed;
    },
    headerValues: (name) => incoming.headersDistinct[name] ?? [],
    readBody: (maxBytes) => uploads.readBody(incoming, maxBytes),
  };
}

/** As in {@link HttpRequest.path}. */
export function pathOf({ url = "" }: IncomingMessage): string {
  const queryStart = url.indexOf("?");
  return queryStart < 0 ? url : url.slice(0, queryStart);
}

function closedSignal(incoming: IncomingMessage, outgoing: ServerResponse): AbortSignal {
  if (outgoing.closed || incoming.socket.destroyed) return AbortSignal.abort();
  const controller = new AbortController();
  outgoing.once("close", () => controller.abort());
  return controller.signal;
}
