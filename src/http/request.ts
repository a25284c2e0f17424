import { isUtf8 } from "node:buffer";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { BlockList, isIP } from "node:net";
import { boundedCache } from "../core/bounded-cache.ts";
import { GatewayError } from "../core/errors.ts";
import { ALL_HEADERS, BOUND_HEADERS, type JobCall, namesIn } from "../core/job-call.ts";
import type { IpRange } from "../core/network-address.ts";
import type { Incoming, Uploads } from "./uploads.ts";

/** One HTTP request as routes see it. Nothing in it is decoded or normalised. */
export class HttpRequest {
  readonly method: string;
  /** Request target up to `?`, byte for byte: percent-encoding, dots and doubled slashes included. */
  readonly path: string;
  /** Headers by lower-case name. Node's rules join repeated headers. */
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
   * Aborts when the route should stop waiting, because the answer is sent or the client has half-closed. A client that
   * has half-closed may be gone, or may still read the answer.
   */
  get closed(): AbortSignal {
    this.#closed ??= closedSignal(this.#incoming, this.#outgoing);
    return this.#closed;
  }

  /** Returns every value of a header, one for each line that was sent. `name` is lower case. */
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

  /** Puts back a body that was read, so that it can be read again. */
  unreadBody(body: Uint8Array): void {
    this.#unread = body;
  }
}

/** The members of a request that a purchase reads. */
export type JobRequest = Pick<
  HttpRequest,
  "id" | "method" | "path" | "query" | "headers" | "headerValues" | "remoteAddress" | "readBody"
>;

/** Returns the same request with a body that can be read several times, as long as this object is kept. */
export function withBodyOnce(request: JobRequest): JobRequest {
  let body: Promise<Uint8Array> | undefined;
  return {
    id: request.id,
    method: request.method,
    path: request.path,
    query: request.query,
    headers: request.headers,
    remoteAddress: request.remoteAddress,
    headerValues: (name) => request.headerValues(name),
    readBody: (maxBytes) => (body ??= request.readBody(maxBytes)),
  };
}

/**
 * Checks the request's Transfer-Encoding. Node accepts an empty Transfer-Encoding, and codings before `chunked` that it does
 * not decode. If a proxy interprets them differently, a second request could hide in the body of the first.
 */
export function hasKnownFraming(incoming: IncomingMessage): boolean {
  if (incoming.headers["transfer-encoding"] === undefined) return true;
  const [coding, ...more] = incoming.headersDistinct["transfer-encoding"] ?? [];
  return coding === undefined || (more.length === 0 && coding.toLowerCase() === "chunked");
}

/**
 * Checks for exactly one Host header (RFC 9112 §3.2). Node keeps the first of several Host headers, while a proxy may use
 * the last.
 */
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
 * Returns true if the client is a browser: its `Accept` header names `text/html`, and does not prefer JSON. Programs that
 * accept any type send a wildcard instead of names.
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

/** The members of a request from which the client's address is determined. */
export type AddressedRequest = Pick<HttpRequest, "remoteAddress" | "headerValues">;

/** Returns the client's address, or undefined when a trusted proxy forwarded something that is not an address. */
export type AddressFinder = (request: AddressedRequest) => string | undefined;

/**
 * Makes a finder of clients' addresses. Behind proxies, the client's address is the rightmost address in `X-Forwarded-For`
 * that is not a trusted proxy, because the addresses to its left are unverified claims. Without trusted proxies the header
 * is ignored.
 */
export function createAddressFinder(trustedProxies: readonly IpRange[]): AddressFinder {
  const isProxy = matcher(trustedProxies);
  return (request) => {
    let source = toAddress(request.remoteAddress);
    if (source === undefined || !isProxy(source)) return source;
    const forwarded = request.headerValues("x-forwarded-for").join(",");
    for (const hop of forwarded === "" ? [] : forwarded.split(",").reverse()) {
      source = toAddress(hop.trim());
      if (source === undefined || !isProxy(source)) return source;
    }
    return source;
  };
}

/** Returns a function that checks whether a request comes from one of the allowed addresses. */
export function createSourceCheck(options: {
  readonly allowCidrs: readonly IpRange[];
  readonly trustedProxies: readonly IpRange[];
}): (request: AddressedRequest) => boolean {
  const isAllowed = matcher(options.allowCidrs);
  const addressOf = createAddressFinder(options.trustedProxies);
  return (request) => {
    const source = addressOf(request);
    return source !== undefined && isAllowed(source);
  };
}

/** Parses an address as proxies write it, and drops its port and zone. */
function toAddress(text: string): string | undefined {
  if (isIP(text) !== 0 && !text.includes("%")) return text;
  const [, bracketed, ipv4] = /^(?:\[([^\]]+)\](?::\d{1,5})?|([\d.]+):\d{1,5})$/.exec(text) ?? [];
  const address = (bracketed ?? ipv4 ?? text).replace(/%.*$/, "");
  return isIP(address) === 0 ? undefined : address;
}

/** Bound on the addresses whose match is cached. */
const MAX_REMEMBERED = 1_000;

/**
 * BlockList also matches IPv4 addresses that came through an IPv6 socket. It needs 4 µs for an address, so recent results
 * are cached.
 */
function matcher(ranges: readonly IpRange[]): (address: string) => boolean {
  if (ranges.length === 0) return () => false;
  const list = new BlockList();
  for (const { address, prefixBits, family } of ranges) list.addSubnet(address, prefixBits, family);
  const known = boundedCache<string, boolean>(MAX_REMEMBERED);
  return (address) => {
    const before = known.get(address);
    if (before !== undefined) return before;
    const isMatch = list.check(address, isIP(address) === 4 ? "ipv4" : "ipv6");
    known.set(address, isMatch);
    return isMatch;
  };
}

type Metadata = NonNullable<JobCall["requestMetadata"]>;

/**
 * Longest value that is forwarded. Runners that get the value as an HTTP header or an environment variable also have limits.
 */
const MAX_VALUE_BYTES = 4 * 1024;
/**
 * Prefix of metadata made from a request's headers. jobgate's own metadata does not have this prefix, so no header can
 * imitate it.
 */
const PREFIX = "X-HTTP-";
/** `Content-Type` is forwarded with every JobCall, because a runner needs it to read the body. */
const CONTENT_TYPE = "content-type";

/**
 * Headers that only select the form of an answer. A repeated request may have other values of them, and still gets the
 * stored answer.
 */
const OF_ANSWER: ReadonlySet<string> = new Set(["if-none-match", "if-range", "range"]);

/** Headers of a request that its runner gets as metadata: `X-HTTP-` and the name in upper case. */
export class ForwardedHeaders {
  /** Names of the headers that a payment is bound to: sorted, in lower case, with `content-type`. */
  readonly names: readonly string[];
  readonly #list: readonly string[];
  readonly #areBytes: boolean;

  /**
   * @param names headers in addition to `Content-Type`, in lower case; `*` stands for all
   * @param options `priced`: further names, on whose values the price depends; `areBytes`: a value has one character for
   *   each byte that was sent, instead of the decoded text
   */
  constructor(
    names: Iterable<string> = [],
    {
      priced = [],
      areBytes = false,
    }: { readonly priced?: readonly string[]; readonly areBytes?: boolean } = {},
  ) {
    this.#areBytes = areBytes;
    const listed = [CONTENT_TYPE, ...names];
    this.#list = [...new Set([...listed, ...priced])];
    const bound = listed.flatMap((name) => (name === ALL_HEADERS ? BOUND_HEADERS : name));
    this.names = [...new Set([...bound.filter((name) => !OF_ANSWER.has(name)), ...priced])].sort();
  }

  /** Reads the headers of the list from the request. @throws GatewayError `headers_too_large` */
  read(request: Pick<JobRequest, "headerValues" | "headers">): Metadata {
    const metadata: [name: string, value: string][] = [];
    for (const name of namesIn(this.#list, request.headers)) {
      const lines = request.headerValues(name);
      if (lines.length === 0) continue;
      const value = joined(name, lines);
      metadata.push([`${PREFIX}${name.toUpperCase()}`, this.#areBytes ? value : decode(value)]);
    }
    return metadata;
  }
}

/** Joins the lines of a header as HTTP does (RFC 9110 §5.3). */
function joined(name: string, lines: readonly string[]): string {
  const value = lines.join(", ");
  requireForwardable(`The header ${name}`, value);
  return value;
}

/** @throws GatewayError `headers_too_large` for a part of a request that is too long for its runner */
export function requireForwardable(what: string, value: string, maxBytes = MAX_VALUE_BYTES): void {
  if (value.length <= maxBytes) return;
  throw new GatewayError(
    "headers_too_large",
    `${what} goes to the job's runner, so it can have at most ${maxBytes} bytes.`,
  );
}

/** Matches characters outside ASCII. Node reads each byte of a header as one Latin-1 character. */
const NOT_ASCII = /[\x80-\xff]/;

/** Decodes a value as UTF-8 if it is valid UTF-8, and otherwise as Latin-1, because senders use both. */
function decode(value: string): string {
  if (!NOT_ASCII.test(value)) return value;
  const bytes = Buffer.from(value, "latin1");
  return isUtf8(bytes) ? bytes.toString() : value;
}
