import { isIP } from "node:net";
import { isAnyInConstantTime } from "../../core/constant-time.ts";
import { bearerToken, type HttpRequest } from "../../http/request.ts";
import { type HttpResponse, jsonResponse } from "../../http/response.ts";
import type { MethodHandlers, RouteHandler } from "../../http/routes.ts";

/** Returns the bearer tokens in use, any of which gives access; none if the listener needs none. */
export type OperatorTokens = () => readonly string[];

/** Wraps a handler: a request without access is refused before it is read. */
function guarded(tokens: OperatorTokens, handler: RouteHandler): RouteHandler {
  return (request) => accessRefusal(request, tokens()) ?? handler(request);
}

/** Wraps every handler of a path. */
export function guardedRoute(tokens: OperatorTokens, handlers: MethodHandlers): MethodHandlers {
  const { GET, HEAD, POST, DELETE, ...about } = handlers;
  const each = Object.entries({ GET, HEAD, POST, DELETE }).flatMap(([method, handler]) =>
    handler === undefined ? [] : [[method, guarded(tokens, handler)] as const],
  );
  return { ...about, ...Object.fromEntries(each) };
}

/**
 * Checks where a request comes from, and its token. Returns the refusal of a request without access.
 *
 * Any page can make a browser send requests, so pages of other sites are refused by Origin and Sec-Fetch-Site, which a page
 * cannot change. Without a token, DNS rebinding remains possible: a site points one of its names at this machine, and the
 * browser treats this machine as the page's own server. So without a token, only IP addresses and localhost are accepted as
 * hosts. With a token any name is safe, because the browser does not send it there.
 */
function accessRefusal(request: HttpRequest, tokens: readonly string[]): HttpResponse | undefined {
  const { host = "" } = request.headers;
  if (!URL.canParse(`http://${host}`))
    return refusal(400, "invalid_argument", "The Host header is missing or invalid.");
  if (isFromAnotherSite(request, tokens.length === 0 ? ["http:"] : ["http:", "https:"]))
    return refusal(403, "permission_denied", "Pages of other sites may not use this API.");
  if (tokens.length === 0) {
    if (isAddress(host)) return undefined;
    const message =
      "Without operator.token in the configuration, this answers only at an IP address or localhost.";
    return refusal(403, "permission_denied", message);
  }
  const sent = bearerToken(request);
  if (sent !== undefined && isAnyInConstantTime(sent, tokens)) return undefined;
  const message = "The operator's token is required: Authorization: Bearer <token>.";
  return refusal(401, "unauthenticated", message, { "www-authenticate": "Bearer" });
}

/** Makes a refusal as the Connect protocol writes it. gRPC-Web clients take the code from the HTTP status. */
function refusal(status: number, code: string, message: string, headers = {}): HttpResponse {
  return jsonResponse(status, { code, message }, headers);
}

/**
 * Returns true for a request that a page of another site made. Browsers add Origin to every POST; a page belongs to
 * this listener if its origin is the address that it called. Other programs send neither header.
 * @param schemes includes https if a TLS proxy may stand before this listener
 */
function isFromAnotherSite({ headers }: HttpRequest, schemes: readonly string[]): boolean {
  const { origin, host = "", "sec-fetch-site": fetchSite } = headers;
  if (fetchSite !== undefined && fetchSite !== "same-origin" && fetchSite !== "none") return true;
  return origin !== undefined && !schemes.some((scheme) => origin === `${scheme}//${host}`);
}

/** Returns true if `host[:port]` is an IP address or `localhost`, which no foreign DNS record can redefine. */
function isAddress(host: string): boolean {
  const name = host
    .replace(/:\d+$/, "")
    .replace(/^\[(.*)\]$/, "$1")
    .toLowerCase();
  return name === "localhost" || name.endsWith(".localhost") || isIP(name) !== 0;
}
