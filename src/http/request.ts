import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Incoming } from "./incoming.ts";
import type { Uploads } from "./uploads.ts";

/** One HTTP request as routes see it. Nothing in it is decoded or normalised. */
export class HttpRequest {
  readonly method: string;
  /** Request target up to `?`, byte for byte: percent-encoding, dots and doubled slashes included. */
  readonly path: string;
  /** Headers by lower-case name, with repeated ones joined by Node's rules. */
  readonly headers: IncomingHttpHeaders;
  readonly remoteAddress: string;
  /** Unique over all servers of all processes: answers and logs name it. */
  readonly id: string;
  readonly #incoming: Incoming;
  readonly #outgoing: ServerResponse;
  readonly #uploads: Uploads;
  #closed: AbortSignal | undefined;
  #unread: Uint8Array | undefined;

  constructor(id: string, incoming: Incoming, outgoing: ServerResponse, uploads: Uploads) {
    this.method = incoming.method ?? "";
    this.path = pathOf(incoming);
    this.headers = incoming.headers;
    this.remoteAddress = incoming.socket.remoteAddress ?? "";
    this.id = id;
    this.#incoming = incoming;
    this.#outgoing = outgoing;
    this.#uploads = uploads;
  }

  /** Request target after `?`, byte for byte. */
  get query(): string {
    return (this.#incoming.url ?? "").slice(this.path.length + 1);
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
    const values: string[] = [];
    if (this.headers[name] === undefined) return values;
    // Node's headersDistinct would make an array for each name that was sent.
    const { rawHeaders } = this.#incoming;
    for (let i = 0; i < rawHeaders.length; i += 2) {
      const sent = rawHeaders[i] as string;
      if (sent.length === name.length && sent.toLowerCase() === name)
        values.push(rawHeaders[i + 1] as string);
    }
    return values;
  }

  /** Reads the whole body, once. See {@link Uploads.readBody}. */
  readBody(maxBytes: number): Promise<Uint8Array> {
    const body = this.#unread;
    this.#unread = undefined;
    if (body !== undefined) return Promise.resolve(body);
    return this.#uploads.readBody(this.#incoming, maxBytes);
  }

  /** Puts a body back that was read, so that it can be read once more. */
  unreadBody(body: Uint8Array): void {
    this.#unread = body;
  }
}

/** The parts of a request that a purchase reads. */
export type JobRequest = Pick<
  HttpRequest,
  "id" | "method" | "path" | "query" | "headers" | "headerValues" | "remoteAddress" | "readBody"
>;

/**
 * Checks the request's Transfer-Encoding. Node accepts an empty one, and codings before `chunked` that it does not
 * decode: where a proxy reads them in another way, a second request could hide in the body of the first.
 */
export function hasKnownFraming(incoming: IncomingMessage): boolean {
  if (incoming.headers["transfer-encoding"] === undefined) return true;
  const [coding, ...more] = incoming.headersDistinct["transfer-encoding"] ?? [];
  return coding === undefined || (more.length === 0 && coding.toLowerCase() === "chunked");
}

/** Checks for exactly one Host header (RFC 9112 §3.2). Node keeps the first of several, where a proxy may read the last. */
export function hasOneHost({ rawHeaders }: IncomingMessage): boolean {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i];
    if (name?.length === 4 && name.toLowerCase() === "host") count++;
  }
  return count === 1;
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

/**
 * Reports whether a person's browser asks: the `Accept` header names `text/html`, and JSON with no higher quality.
 * Programs that take anything send a wildcard, which names nothing.
 */
export function prefersHtml({ headers }: HttpRequest): boolean {
  const html = qualityOf("text/html", headers.accept);
  return html > 0 && html >= qualityOf("application/json", headers.accept);
}

/** Returns the quality (RFC 9110 §12.4.2) of a media type that an `Accept` header names; 0 when it does not name it. */
function qualityOf(type: string, accept = ""): number {
  for (const range of accept.split(",")) {
    const [name = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    if (name !== type) continue;
    const quality = parameters.find((parameter) => parameter.startsWith("q="))?.slice(2);
    return quality === undefined ? 1 : Number(quality) || 0;
  }
  return 0;
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
