import { fileHandler, pageFiles, pageHeaders, readPage } from "../../http/page-files.ts";
import type { Routes } from "../../http/routes.ts";

/** Content-Security-Policy of every page, which also forbids scripts to turn text into HTML or code. */
const POLICY = ["img-src 'self' data:", "require-trusted-types-for 'script'", "trusted-types 'none'"];

/**
 * The operator's page at `/`, and its files under `/page/`. They need no token, because everything that they show comes
 * from the API.
 */
export function pageRoutes(): Routes {
  const headers = pageHeaders(POLICY);
  const page = fileHandler(readPage("operator/index.html"), "text/html; charset=utf-8", headers);
  return [["/", { GET: page }], ...pageFiles("operator", "/page", headers)];
}
