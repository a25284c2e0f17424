import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { extname } from "node:path";
import type { HttpRequest } from "../http/request.ts";
import type { HttpResponse } from "../http/response.ts";
import type { MethodHandlers, RouteTable } from "../http/routes.ts";

/** Folder of the page's files, at the same place in the sources and in the build. */
const FOLDER = new URL("../page/", import.meta.url);

const CONTENT_TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** Lets the page load its own files and call its own origin, nothing else. Forbids frames and HTML made from text. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const HEADERS = {
  "content-security-policy": CONTENT_SECURITY_POLICY,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-cache",
};

/**
 * The operator's page at `/`, and its files under `/page/`. They need no token, because everything that they show comes
 * from the API.
 * @throws Error if the files are missing
 */
export function pageRoutes(): RouteTable {
  const routes = new Map<string, MethodHandlers>();
  for (const name of readdirSync(FOLDER)) {
    const contentType = CONTENT_TYPES[extname(name)];
    if (contentType === undefined) continue;
    const body = readFileSync(new URL(name, FOLDER));
    routes.set(name === "index.html" ? "/" : `/page/${name}`, { GET: fileHandler(body, contentType) });
  }
  if (!routes.has("/"))
    throw new Error(`The operator's page is missing: expected index.html in ${FOLDER.pathname}`);
  return (path) => routes.get(path);
}

function fileHandler(body: Uint8Array, contentType: string): (request: HttpRequest) => HttpResponse {
  const etag = `"${createHash("sha256").update(body).digest("base64url")}"`;
  const headers = { ...HEADERS, etag };
  return (request) =>
    request.headers["if-none-match"] === etag
      ? { status: 304, headers, body: "" }
      : { status: 200, headers: { ...headers, "content-type": contentType }, body };
}
