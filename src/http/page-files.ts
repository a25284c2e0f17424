import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import type { HttpRequest } from "./request.ts";
import type { HttpResponse } from "./response.ts";
import type { MethodHandlers } from "./routes.ts";

/** Folder that `npm run build` fills with the pages: two levels up from the sources, and from the bundle. */
const FOLDER = new URL("../../dist/page/", import.meta.url);

const CONTENT_TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** Lets a page load its own files and call its own origin only. Forbids frames. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
];

/**
 * Returns the headers of a page or of its files.
 * @param policy directives in addition to the directives of every page
 */
export function pageHeaders(policy: readonly string[]): Readonly<Record<string, string>> {
  return {
    "content-security-policy": [...CONTENT_SECURITY_POLICY, ...policy].join("; "),
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
  };
}

/** @throws Error if the pages were not built */
export function requirePages(): void {
  if (existsSync(FOLDER)) return;
  throw new Error(
    `The pages are missing: expected them in ${fileURLToPath(FOLDER)}. Run \`npm run build\`, or install jobgate again.`,
  );
}

/** Reads the HTML of a page. */
export function readPage(name: string): string {
  return readFileSync(new URL(name, FOLDER), "utf8");
}

/**
 * Returns handlers for every script, style and picture of a page's folder and of the shared folder, by path:
 * `<prefix>/<folder>/<file>`. They are read once and need no token.
 */
export function pageFiles(
  folder: string,
  prefix: string,
  headers: Readonly<Record<string, string>>,
): ReadonlyMap<string, MethodHandlers> {
  const routes = new Map<string, MethodHandlers>();
  for (const part of [folder, "shared"]) {
    for (const name of readdirSync(new URL(`${part}/`, FOLDER))) {
      const contentType = CONTENT_TYPES[extname(name)];
      if (contentType === undefined) continue;
      const body = readFileSync(new URL(`${part}/${name}`, FOLDER));
      routes.set(`${prefix}/${part}/${name}`, { GET: fileHandler(body, contentType, headers) });
    }
  }
  return routes;
}

/** Returns a handler that answers 304 if the browser already has the file. */
export function fileHandler(
  body: string | Uint8Array,
  contentType: string,
  pageHeaders: Readonly<Record<string, string>>,
): (request: HttpRequest) => HttpResponse {
  const etag = `"${createHash("sha256").update(body).digest("base64url")}"`;
  const headers = { ...pageHeaders, etag };
  return (request) =>
    request.headers["if-none-match"] === etag
      ? { status: 304, headers, body: "" }
      : { status: 200, headers: { ...headers, "content-type": contentType }, body };
}
