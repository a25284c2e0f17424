import { isIP } from "node:net";
import { Code, ConnectError } from "@connectrpc/connect";
import { codeToHttpStatus, errorToJson } from "@connectrpc/connect/protocol-connect";
import { equalInConstantTime } from "../core/constant-time.ts";
import { bearerToken, type HttpRequest } from "../http/request.ts";
import { type HttpResponse, jsonResponse } from "../http/response.ts";

/**
 * Lets a request pass to the API or to the metrics, or not.
 *
 * Browsers send what a page tells them to, so a page of another site is refused by what browsers say of it: Origin and
 * Sec-Fetch-Site, which no page can change. Without a token there is one more way in: a name of that site's own that
 * was pointed at this machine, so that its page calls what seems to be its own server. So a name is taken only where a
 * token is asked for too: the browser would not send it there.
 * @throws ConnectError PERMISSION_DENIED for another site's page in a browser, or for such a name; UNAUTHENTICATED
 *   without the token; INVALID_ARGUMENT for a Host header that is none
 */
export function checkAccess(request: HttpRequest, token: string | undefined): void {
  const { host = "" } = request.headers;
  if (!URL.canParse(`http://${host}`)) {
    throw new ConnectError("The Host header is missing, or is no host.", Code.InvalidArgument);
  }
  if (isFromAnotherSite(request, token === undefined ? ["http:"] : ["http:", "https:"])) {
    throw new ConnectError("Pages of other sites may not use this API.", Code.PermissionDenied);
  }
  if (token === undefined) {
    if (isAddress(host)) return;
    throw new ConnectError(
      "Without a token in the configuration this is answered only at an IP address or localhost.",
      Code.PermissionDenied,
    );
  }
  const given = bearerToken(request);
  if (given === undefined || !equalInConstantTime(given, token)) {
    throw new ConnectError(
      "The operator's token is required: Authorization: Bearer <token>.",
      Code.Unauthenticated,
    );
  }
}

/** A Connect error as an answer, before the request is read. gRPC-Web clients take the code from the HTTP status. */
export function refusalResponse(error: ConnectError): HttpResponse {
  const headers = error.code === Code.Unauthenticated ? { "www-authenticate": "Bearer" } : {};
  return jsonResponse(codeToHttpStatus(error.code), errorToJson(error, undefined), headers);
}

/**
 * Browsers add Origin to every POST, and other programs do not. A page is this listener's own when its origin is the
 * address that it called.
 * @param schemes with TLS in front of this listener, the page's is https
 */
function isFromAnotherSite({ headers }: HttpRequest, schemes: readonly string[]): boolean {
  const { origin, host = "", "sec-fetch-site": fetchSite } = headers;
  if (fetchSite !== undefined && fetchSite !== "same-origin" && fetchSite !== "none") return true;
  return origin !== undefined && !schemes.some((scheme) => origin === `${scheme}//${host}`);
}

/** Whether `host[:port]` is an IP address or `localhost`, whose meaning nobody else can change. */
function isAddress(host: string): boolean {
  const name = host
    .replace(/:\d+$/, "")
    .replace(/^\[(.*)\]$/, "$1")
    .toLowerCase();
  return name === "localhost" || name.endsWith(".localhost") || isIP(name) !== 0;
}
