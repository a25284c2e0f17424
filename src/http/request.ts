import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Uploads } from "./uploads.ts";

/** One HTTP request as routes see it. Nothing in it is decoded or normalised. */
export class HttpRequest {
  /** Unique in this process's logs. */
  readonly id: string;
  readonly method: string;
  /** Request target up to `?`, byte for byte: percent-encoding, dots and doubled slashes included. */
  readonly path: string;
  /** Request target after `?`, byte for byte. */
  readonly query: string;
  /** Headers by lower-case name, with repeated ones joined by Node's rules. */
  readonly headers: IncomingHttpHeaders;
  readonly remoteAddress: string;
  readonly #incoming: IncomingMessage;
  readonly #outgoing: ServerResponse;
  readonly #uploads: Uploads;
  #closed: AbortSignal | undefined;

  constructor(id: string, incoming: IncomingMessage, outgoing: ServerResponse, uploads: Uploads) {
    this.id = id;
    this.method = incoming.method ?? "";
    this.path = pathOf(incoming);
    this.query = (incoming.url ?? "").slice(this.path.length + 1);
    this.headers = incoming.headers;
    this.remoteAddress = incoming.socket.remoteAddress ?? "";
    this.#incoming = incoming;
    this.#outgoing = outgoing;
    this.#uploads = uploads;
  }

  /**
   * Aborts when nothing should be waited for any more: the answer is sent, or the client has closed its side. It may have
   * hung up, or still read the answer.
   */
  get closed(): AbortSignal {
    this.#closed ??= closedSignal(this.#incoming, this.#outgoing);
    return this.#closed;
  }

  /** Returns every value of a header, one for each time it was sent. `name` is lower case. */
  headerValues(name: string): readonly string[] {
    return this.#incoming.headersDistinct[name] ?? [];
  }

  /** Reads the whole body. See {@link Uploads.readBody}. */
  readBody(maxBytes: number): Promise<Uint8Array> {
    return this.#uploads.readBody(this.#incoming, maxBytes);
  }
}

/**
 * Checks the request's Transfer-Encoding. Node accepts an empty one, and codings before `chunked` that it does not
 * decode: where a proxy reads them in another way, a second request could hide in the body of the first.
 */
export function hasKnownFraming({ headersDistinct }: IncomingMessage): boolean {
  const [coding, ...more] = headersDistinct["transfer-encoding"] ?? [];
  return coding === undefined || (more.length === 0 && coding.toLowerCase() === "chunked");
}

/** Returns the request target up to `?`, byte for byte. */
export function pathOf({ url = "" }: IncomingMessage): string {
  const queryStart = url.indexOf("?");
  return queryStart < 0 ? url : url.slice(0, queryStart);
}

/**
 * Returns the token of `Authorization: Bearer <token>` (RFC 6750), or undefined unless the header was sent exactly once
 * in that form. The scheme's letter case does not matter.
 */
export function bearerToken(request: HttpRequest): string | undefined {
  const values = request.headerValues("authorization");
  return values.length === 1 ? /^bearer +(\S+)$/i.exec(values[0] ?? "")?.[1] : undefined;
}

function closedSignal(incoming: IncomingMessage, outgoing: ServerResponse): AbortSignal {
  const { socket } = incoming;
  if (outgoing.closed || socket.destroyed || socket.readableEnded) return AbortSignal.abort();
  const controller = new AbortController();
  const abort = () => controller.abort();
  socket.once("end", abort);
  outgoing.once("close", () => {
    socket.off("end", abort);
    abort();
  });
  return controller.signal;
}
