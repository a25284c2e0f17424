import { GatewayError } from "../errors.ts";
import type { HttpRequest } from "./http-request.ts";
import type { HttpResponse } from "./http-response.ts";

export type RouteHandler = (request: HttpRequest) => HttpResponse | Promise<HttpResponse>;

/** The methods that one path answers to. */
export type MethodHandlers = Readonly<Partial<Record<"GET" | "POST", RouteHandler>>>;

/**
 * Finds what a raw path leads to; undefined when it is none of this table's paths.
 * Paths are compared as they were sent: a router that decodes or tidies them would let `%31` start job 1.
 */
export type RouteTable = (path: string) => MethodHandlers | undefined;

/** Answers a request from the first table that knows its path. */
export function dispatch(
  tables: Iterable<RouteTable>,
  request: HttpRequest,
): HttpResponse | Promise<HttpResponse> {
  for (const table of tables) {
    const methods = table(request.path);
    if (methods === undefined) continue;
    const handler = Object.hasOwn(methods, request.method)
      ? methods[request.method as keyof MethodHandlers]
      : undefined;
    if (handler === undefined) throw methodNotAllowed(Object.keys(methods));
    return handler(request);
  }
  throw new GatewayError("not_found", "There is nothing at this path. Paths are compared byte for byte.");
}

function methodNotAllowed(allowed: string[]): GatewayError {
  const allow = allowed.join(", ");
  return new GatewayError("method_not_allowed", `This path answers only to ${allow}.`, {
    headers: { allow },
  });
}
