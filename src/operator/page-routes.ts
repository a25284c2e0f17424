import { fileHandler, pageFiles, pageHeaders, readPage } from "../http/page-files.ts";
import type { MethodHandlers, RouteTable } from "../http/routes.ts";

/** Besides the rules of every page, forbids HTML and code that is made of text. */
const POLICY = ["img-src 'self' data:", "require-trusted-types-for 'script'", "trusted-types 'none'"];

/**
 * The operator's page at `/`, and its files under `/page/`. They need no token, because everything that they show comes
 * from the API.
 */
export function pageRoutes(): RouteTable {
  const headers = pageHeaders(POLICY);
  const page = fileHandler(readPage("operator/index.html"), "text/html; charset=utf-8", headers);
  const routes = new Map<string, MethodHandlers>([
    ["/", { GET: page }],
    ...pageFiles("operator", "/page", headers),
  ]);
  return (path) => routes.get(path);
}
