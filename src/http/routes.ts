import type { IncomingMessage, ServerResponse } from "node:http";
import { type ErrorCode, GatewayError } from "../core/errors.ts";
import type { Cors } from "./cors.ts";
import type { HttpRequest } from "./request.ts";
import type { HttpResponse, StreamingResponse } from "./response.ts";

/** Matches a path that all proxies and servers read alike: only visible ASCII characters, and no fragment. */
const RAW_PATH = /^\/[\x21\x22\x24-\x7e]+$/;
/** Matches a query string of visible ASCII characters without a fragment. */
const RAW_QUERY = /^[\x21\x22\x24-\x7e]*$/;
/** Characters that a segment cannot have, encoded or not, because some readers treat them as the end of a segment. */
const AMBIGUOUS = /[/\\;\p{Cc}]/u;
/** Characters that a URL can have in a segment unencoded, and that encodeURIComponent encodes. */
const UNENCODED = /%(?:24|26|2B|2C|3A|3D|40)/g;

/**
 * Decodes the segments of a raw path, each once. Returns undefined for a path that can be read in more than one way: empty
 * segments and dot segments, encoded slashes and backslashes, semicolons, control characters, and bytes that are not UTF-8.
 * After a slash at the end, the last segment is empty.
 */
export function decodeSegments(path: string): readonly string[] | undefined {
  if (!RAW_PATH.test(path)) return undefined;
  const segments = path.slice(1).split("/");
  for (const [i, segment] of segments.entries()) {
    const text = segment.includes("%") ? decoded(segment) : segment;
    if (text === "" && i > 0 && i === segments.length - 1) continue;
    if (text === undefined || text === "" || text === "." || text === ".." || AMBIGUOUS.test(text))
      return undefined;
    segments[i] = text;
  }
  return segments;
}

/** Returns false for a query string that can be read in more than one way: `a=b#c` is `a=b` to URL parsers. */
export function isPlainQuery(query: string): boolean {
  return RAW_QUERY.test(query);
}

/** Encodes segments as a path. Each segment has only one encoded form. */
export function encodeSegments(segments: readonly string[]): string {
  return segments
    .map((segment) => `/${encodeURIComponent(segment).replace(UNENCODED, decodeURIComponent)}`)
    .join("");
}

/** @returns undefined for malformed percent-encoding, and for bytes that are not UTF-8 in its shortest form */
function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}

export type RouteHandler = (request: HttpRequest) => RouteAnswer | Promise<RouteAnswer>;

/** Answer, whole or in pieces, or a function that answers on Node's own objects in another protocol. */
export type RouteAnswer =
  | HttpResponse
  | StreamingResponse
  | ((incoming: IncomingMessage, outgoing: ServerResponse) => void);

/** @param request undefined if it could not be read */
type RefusalDetails = (code: ErrorCode, request?: HttpRequest) => Readonly<Record<string, unknown>>;

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] as const;

/** Handlers of one path, by method. Node sends the answer to HEAD without its body. */
export interface MethodHandlers extends Readonly<Partial<Record<(typeof METHODS)[number], RouteHandler>>> {
  /** Pattern of a path with variable parts, for logs and metrics. Default: the path itself. */
  readonly route?: string;
  /** Returns extra JSON fields for refusals that no handler makes: another method, a malformed request, a shutdown. */
  readonly refusalDetails?: RefusalDetails;
  /** Answers every other method. Default: other methods are refused. @param refusal lists the supported methods */
  readonly other?: RefusedHandler;
  /** If true, a path of another table on the same socket takes precedence. */
  readonly yields?: true;
}

/**
 * Answers a request that is about to be refused.
 * @throws the refusal, or another refusal
 */
type RefusedHandler = (request: HttpRequest, refusal: GatewayError) => RouteAnswer | Promise<RouteAnswer>;

/** Handlers of a health route: probes send GET or HEAD. */
export function healthHandlers(answer: () => HttpResponse): MethodHandlers {
  return { GET: answer, HEAD: answer };
}

/** Handlers by raw path. */
export type Routes = Iterable<readonly [path: string, handlers: MethodHandlers]>;

/**
 * Finds the handlers of a raw path; undefined when the table does not have it. Paths are compared byte for byte,
 * because a router that decodes or normalises them would let `%31` start job 1.
 */
export type RouteTable = (path: string) => MethodHandlers | undefined;

/** Finds the handler for a request's method. @throws GatewayError `method_not_allowed` with the allowed methods */
export function handlerOf(handlers: MethodHandlers, { method }: HttpRequest): RouteHandler {
  const known = METHODS.find((name) => name === method);
  const handler = known && handlers[known];
  if (handler !== undefined) return handler;
  const allow = methodsOf(handlers);
  const refusal = refusalAt(handlers, "method_not_allowed", `This path answers only to ${allow}.`, { allow });
  const { other } = handlers;
  if (other === undefined) throw refusal;
  return (request) => other(request, refusal);
}

/** Makes a refusal with the JSON fields that a path's refusals have. */
export function refusalAt(
  { refusalDetails }: MethodHandlers | TableOwner,
  code: ErrorCode,
  message: string,
  headers: Readonly<Record<string, string>> = {},
  request?: HttpRequest,
): GatewayError {
  return new GatewayError(code, message, { details: refusalDetails?.(code, request) ?? {}, headers });
}

/** Returns the methods of a path, as `Allow` lists them. */
export function methodsOf(handlers: MethodHandlers): string {
  return METHODS.filter((name) => handlers[name] !== undefined).join(", ");
}

/** The listener that a table belongs to. */
export interface TableOwner {
  /** Name of the listener, in logs and metrics. */
  readonly listener: string;
  /** Lets web pages of other origins call the table's routes. Default: no other origin may. */
  readonly cors?: Cors;
  /** If false, only requests with a `traceparent` are traced, as part of their client's trace. Default: true. */
  readonly startsTraces?: false;
  /** Paths with this prefix belong to the table, even if the table has no route for them. Default: none. */
  readonly prefix?: string;
  /** Returns extra JSON fields for the refusal of a path without a route, and of a request whose path is not known. */
  readonly refusalDetails?: RefusalDetails;
  /** Returns the handler of a request for a path that no table has; undefined if the request is refused. */
  readonly unmatched?: (request: HttpRequest) => RefusedHandler | undefined;
}

/** A table's handlers for one path. */
interface FoundRoute {
  readonly table: RouteTable;
  readonly owner: TableOwner;
  readonly handlers: MethodHandlers;
}

/** Searches tables, given with their owners, for a raw path. A path that yields is used only if no other table has the path. */
export function findRoute(tables: ReadonlyMap<RouteTable, TableOwner>, path: string): FoundRoute | undefined {
  let yielding: FoundRoute | undefined;
  for (const [table, owner] of tables) {
    const handlers = table(path);
    if (handlers === undefined) continue;
    const found = { table, owner, handlers };
    if (!handlers.yields) return found;
    yielding ??= found;
  }
  return yielding;
}
