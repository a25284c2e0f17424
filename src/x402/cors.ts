import type { X402Config } from "../config/config.ts";
import type { PageAccess } from "../http/cors.ts";
import type { Versions } from "./wire/version.ts";

/** Returns the request headers that a page may send beside the headers of jobs. @param payments headers with payments */
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
  // A response header. @x402/fetch sends it with each payment by mistake, and its preflight must not fail for that.
  "Access-Control-Expose-Headers",
];

/** Response headers of payments, results and refusals that a page may read. @param settlements headers with settlements */
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

/** Headers that web pages may use beside the headers of x402. */
export interface PageHeaders {
  /** Request headers. */
  readonly sent: readonly string[];
  /** Response headers. */
  readonly read: readonly string[];
}

/** Returns what lets pages buy jobs and read their results. @param added headers of what parts add to the shop */
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
  // Results at a route have headers of their runner's own.
  const others = jobs.some(({ route }) => route !== undefined) ? ["*"] : [];
  return {
    origins: corsOrigins,
    allows: [...new Set([...allowed(payments), ...sent, ...forwarded])].join(", "),
    exposes: [...exposed(settlements), ...read, ...others].join(", "),
  };
}
