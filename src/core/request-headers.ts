/** Headers of a request that no runner and no API gets, whichever gateway they came through. */
export const NEVER_FORWARDED: readonly { readonly names: RegExp; readonly reason: string }[] = [
  {
    names: /^(authorization|cookie|proxy(-.*)?|sign-in-with-x|x-(api-key|auth-token|access-token))$/,
    reason: "carries credentials, which would be stored and shown with each job",
  },
  {
    names: /^(payment-.*|x-payment(-.*)?)$/,
    reason: "carries a payment, which only jobgate and its facilitator may see",
  },
  {
    names: /^x-(chain|tangle)-caller(-.*)?$/,
    reason: "proves who the caller is; the runner gets the caller that jobgate has checked as X-CHAIN-CALLER",
  },
  {
    names: /^(method|path|query|param-.*)$/,
    reason: "would have the name of metadata that jobgate makes of a job's route",
  },
];

/** Names that all servers read in the same way. */
const NAME = /^[A-Za-z0-9-]+$/;
const OF_CONNECTION =
  /^(connection|content-length|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade)$/i;
/** Names that a gateway sets. */
const OF_GATEWAYS =
  /^(x-forwarded-.*|forwarded|via|x-real-ip|x-jobgate-.*|idempotency-key|callback-url|prefer|x-chain-.*|x-x402-.*|x-http-.*|traceparent|tracestate)$/i;
/** Names that jobgate sets on each request to an API. */
const SET_BY_JOBGATE =
  /^(accept-encoding|idempotency-key|traceparent|x-forwarded-(for|host|proto)|x-jobgate-.*)$/i;

/** Reports whether a header of a client may reach an HTTP API that is configured to get it. */
export function mayReachApi(name: string): boolean {
  return NAME.test(name) && !OF_CONNECTION.test(name) && !OF_GATEWAYS.test(name);
}

/** @returns the reason why an operator cannot set a header on the requests to an API */
export function apiHeaderProblem(name: string): string | undefined {
  if (!NAME.test(name)) return "has a character that servers read in different ways";
  if (OF_CONNECTION.test(name)) return "is a header of the connection";
  return SET_BY_JOBGATE.test(name) ? "is set by jobgate itself" : undefined;
}

/** Word in a list of headers that stands for every end-to-end header but credentials. */
export const ALL_HEADERS = "*";
/** Headers that a payment is bound to where all are forwarded, and those that an API gets by default. */
export const BOUND_HEADERS: readonly string[] = ["accept", "accept-language", "content-type"];

/**
 * Returns the names in a list, where `*` stands for all headers of a request, without the names in the request's
 * `Connection` header. All are in lower case.
 */
export function namesIn(
  list: readonly string[],
  headers: Readonly<Record<string, unknown>>,
): readonly string[] {
  const ofConnection = String(headers.connection ?? "")
    .toLowerCase()
    .split(/[\s,]+/);
  const listed = list.includes(ALL_HEADERS)
    ? Object.keys(headers).filter(
        (name) => mayReachApi(name) && !NEVER_FORWARDED.some(({ names }) => names.test(name)),
      )
    : list;
  return listed.filter((name) => !ofConnection.includes(name));
}
