import type { IncomingMessage, ServerResponse } from "node:http";
import { type ErrorCode, GatewayError } from "../core/errors.ts";
import type { HttpRequest } from "./request.ts";
import type { HttpResponse, StreamingResponse } from "./response.ts";

/** Answers on Node's own objects, for what is a protocol of its own. */
export type TakeOver = (incoming: IncomingMessage, outgoing: ServerResponse) => void;

/** What a route gives: the response, whole or in pieces, or a function that takes the request over. */
export type RouteAnswer = HttpResponse | StreamingResponse | TakeOver;

export type RouteHandler = (request: HttpRequest) => RouteAnswer | Promise<RouteAnswer>;

const METHODS = ["GET", "POST"] as const;

/** The methods that one path answers to. */
export interface MethodHandlers extends Readonly<Partial<Record<(typeof METHODS)[number], RouteHandler>>> {
  /** The pattern of a path with parts that vary, by which the operator knows the route. Default: the path itself. */
  readonly route?: string;
  /** Further fields of the answer to a request that reaches no handler: another method, or a gateway that stops. */
  readonly refusalDetails?: (code: ErrorCode) => Readonly<Record<string, unknown>>;
}

/**
 * Finds what a raw path leads to; undefined when it is none of this table's paths.
 * Paths are compared as they were sent: a router that decodes or tidies them would let `%31` start job 1.
 */
export type RouteTable = (path: string) => MethodHandlers | undefined;

/** Finds the handler of a request. @throws GatewayError `method_not_allowed` with the methods that are */
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
