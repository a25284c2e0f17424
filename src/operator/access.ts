import { isIP } from "node:net";
import { Code, ConnectError } from "@connectrpc/connect";
import { codeToHttpStatus, errorToJson } from "@connectrpc/connect/protocol-connect";
import { equalInConstantTime } from "../constant-time.ts";
import { bearerToken } from "../http/bearer-token.ts";
import type { HttpRequest } from "../http/http-request.ts";
import { type HttpResponse, jsonResponse } from "../http/http-response.ts";

/**
 * Lets a request pass to the API or to the metrics, or not.
 * @throws ConnectError PERMISSION_DENIED for another site's page in a browser; UNAUTHENTICATED without the token;
 *   INVALID_ARGUMENT for a Host header that is none
 */
export function checkAccess(request: HttpRequest, token: string | undefined): void {
  if (!URL.canParse(`http://${request.headers.host ?? ""}`)) {
    throw new ConnectError("The Host header is missing, or is no host.", Code.InvalidArgument);
  }
  if (isFromAnotherSite(request)) {
    throw new ConnectError("Pages of other sites may not use this API.", Code.PermissionDenied);
  }
  if (token === undefined) return;
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
 * Browsers add Origin to every POST, and other programs do not. A page is this listener's own when its origin is
 * the address that it called, and that address is no name that someone else's DNS could have pointed here.
 */
function isFromAnotherSite(request: HttpRequest): boolean {
  const fetchSite = request.headers["sec-fetch-site"];
  if (fetchSite !== undefined && fetchSite !== "same-origin" && fetchSite !== "none") return true;
  const { origin, host = "" } = request.headers;
  if (origin === undefined) return false;
  return origin !== `http://${host}` || !isAddress(host);
}

/** Whether `host[:port]` is an IP address or `localhost`. */
function isAddress(host: string): boolean {
  const name = host.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1");
  return name === "localhost" || isIP(name) !== 0;
}
