import type { X402Config } from "../config/config.ts";
import { Cors } from "../http/cors.ts";

/** Request headers that a page may send, besides those that jobs want. */
const ALLOWED = [
  "Content-Type",
  "Authorization",
  "PAYMENT-SIGNATURE",
  "X-PAYMENT",
  "Prefer",
  "Callback-URL",
  "Accept-Payment",
  "Idempotency-Key",
  "SIGN-IN-WITH-X",
  "Last-Event-ID",
  "Mcp-Session-Id",
  "MCP-Protocol-Version",
  "X-X402-QUOTE-DIGEST",
  ...["X-CHAIN-CALLER", "X-TANGLE-CALLER"].flatMap((name) => [
    name,
    `${name}-SIG`,
    `${name}-NONCE`,
    `${name}-EXPIRY`,
  ]),
  // Trace context (W3C).
  "traceparent",
  "tracestate",
  // A response header. @x402/fetch sends it with each payment by mistake, and its preflight must not fail for that.
  "Access-Control-Expose-Headers",
];

/** Response headers that a page may read: those of payments, results, refusals and extensions. */
const EXPOSED = [
  "PAYMENT-REQUIRED",
  "PAYMENT-RESPONSE",
  "X-PAYMENT-RESPONSE",
  "WWW-Authenticate",
  "Payment-Receipt",
  "Location",
  "Retry-After",
  "X-Request-Id",
  "Preference-Applied",
  "X-CALL-ID",
  "X-RECEIPT",
  "X-ACCESS-TOKEN",
  "EXTENSION-RESPONSES",
  "Mcp-Session-Id",
];

type PagesConfig = Pick<X402Config, "corsOrigins" | "forwardHeaders" | "jobs">;

/** Lets pages buy jobs and read their results. */
export function x402Cors(config: PagesConfig): Cors {
  return new Cors({ ...requestsOfPages(config), exposes: EXPOSED.join(", ") });
}

/** Returns what pages may send at this configuration. */
export function requestsOfPages({ corsOrigins, forwardHeaders = [], jobs = [] }: PagesConfig) {
  const wanted = [...forwardHeaders, ...jobs.flatMap((job) => job.forwardHeaders ?? [])];
  return { origins: corsOrigins, allows: [...new Set([...ALLOWED, ...wanted])].join(", ") };
}
