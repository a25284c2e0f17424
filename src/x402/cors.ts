import type { X402Config } from "../config/config.ts";
import type { PageAccess } from "../http/cors.ts";
import type { Versions } from "./wire/version.ts";

/**
 * Returns the request headers that a page may send in addition to the headers of jobs. @param payments headers that carry
 * payments
 */
const allowed = (payments: readonly string[]) => [
  "Content-Type",
  "Authorization",
  ...payments,
  "Prefer",
  "Last-Event-ID",
  "If-None-Match",
  "If-Range",
  "Range",
  // Trace context (W3C).
  "traceparent",
  "tracestate",
  // This is a response header, but @x402/fetch mistakenly sends it with each payment. The preflight of such a request
  // must not fail.
  "Access-Control-Expose-Headers",
];

/**
 * Response headers of payments, results and refusals that a page may read. @param settlements headers that carry settlements
 */
const exposed = (settlements: readonly string[]) => [
  "PAYMENT-REQUIRED",
  ...settlements,
  "WWW-Authenticate",
  "Location",
  "Link",
  "Retry-After",
  "X-Request-Id",
  "Preference-Applied",
  "X-CALL-ID",
  "X-RECEIPT",
  "X-ACCESS-TOKEN",
  "ETag",
  "Content-Range",
  "EXTENSION-RESPONSES",
];

/** Headers that web pages may use in addition to the headers of x402. */
export interface PageHeaders {
  /** Request headers. */
  readonly sent: readonly string[];
  /** Response headers. */
  readonly read: readonly string[];
}

/** Returns the access that lets pages buy jobs and read their results. @param added headers that parts add */
export function accessOfPages(
  {
    corsOrigins,
    forwardHeaders = [],
    jobs = [],
  }: Pick<X402Config, "corsOrigins" | "forwardHeaders" | "jobs">,
  added: readonly PageHeaders[],
  versions: Versions,
): PageAccess {
  const ofVersions = [...versions].map(({ headers }) => headers);
  const payments = ofVersions.map(({ payment }) => payment.toUpperCase());
  const settlements = ofVersions.map(({ settlement }) => settlement.toUpperCase());
  const forwarded = [...forwardHeaders, ...jobs.flatMap((job) => job.forwardHeaders ?? [])];
  const sent = added.flatMap((headers) => headers.sent);
  const read = added.flatMap((headers) => headers.read);
  // A result at a route can have any headers of its runner.
  const others = jobs.some(({ route }) => route !== undefined) ? ["*"] : [];
  return {
    origins: corsOrigins,
    allows: [...new Set([...allowed(payments), ...sent, ...forwarded])].join(", "),
    exposes: [...exposed(settlements), ...read, ...others].join(", "),
  };
}
