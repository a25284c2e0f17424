import type { IncomingMessage, ServerResponse } from "node:http";
import { type ErrorCode, GatewayError } from "../core/errors.ts";
import type { HttpRequest } from "./request.ts";
import type { HttpResponse, StreamingResponse } from "./response.ts";

/** Answers on Node's own objects, for routes that speak a protocol of their own. */
export type TakeOver = (incoming: IncomingMessage, outgoing: ServerResponse) => void;

/** Returns the answer, whole or in pieces, or a function that takes the request over. */
export type RouteHandler = (request: HttpRequest) => RouteAnswer | Promise<RouteAnswer>;

type RouteAnswer = HttpResponse | StreamingResponse | TakeOver;

const METHODS = ["GET", "HEAD", "POST"] as const;

/** Handlers of one path, by method. Node sends the answer to HEAD without its body. */
export interface MethodHandlers extends Readonly<Partial<Record<(typeof METHODS)[number], RouteHandler>>> {
  /** Pattern of a path with variable parts, for logs and metrics. Default: the path itself. */
  readonly route?: string;
  /** Returns extra JSON fields for refusals that no handler makes: another method, a malformed request, a shutdown. */
  readonly refusalDetails?: (code: ErrorCode) => Readonly<Record<string, unknown>>;
}

/** Handlers of a health route: probes send GET or HEAD. */
export function healthHandlers(answer: () => HttpResponse): MethodHandlers {
  return { GET: answer, HEAD: answer };
}

/**
 * Finds the handlers of a raw path; undefined when the table does not have it.
 * Paths are compared byte for byte: a router that decodes or normalises them would let `%31` start job 1.
 */
export type RouteTable = (path: string) => MethodHandlers | undefined;

/** Finds the handler for a request's method. @throws GatewayError `method_not_allowed` with the allowed ones */
export function handlerOf(handlers: MethodHandlers, { method }: HttpRequest): RouteHandler {
  const known = METHODS.find((name) => name === method);
  const handler = known && handlers[known];
  if (handler !== undefined) return handler;
  const allow = METHODS.filter((name) => handlers[name] !== undefined).join(", ");
  throw new GatewayError("method_not_allowed", `This path answers only to ${allow}.`, {
    details: handlers.refusalDetails?.("method_not_allowed") ?? {},
    headers: { allow },
  });
}

/** A table's handlers for one path, with the name of the table's listener. */
export interface FoundRoute {
  readonly table: RouteTable;
  readonly listener: string;
  readonly handlers: MethodHandlers;
}

/** Searches tables, given with the names of their listeners, for a raw path. */
export function findRoute(tables: ReadonlyMap<RouteTable, string>, path: string): FoundRoute | undefined {
  for (const [table, listener] of tables) {
    const handlers = table(path);
    if (handlers !== undefined) return { table, listener, handlers };
  }
  return undefined;
}
