/** Beginnings of the names of headers that carry payments and settlements, in any version of x402. */
export const PAYMENT_PREFIXES = ["payment-", "x-payment-"] as const;

/** Headers of a request that never go on, whichever gateway they came through. */
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
export const PLAIN_NAME = /^[A-Za-z0-9-]+$/;
/** Names of headers of the connection. */
export const OF_CONNECTION =
  /^(connection|content-length|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade)$/i;
/** Names that a gateway sets, or with which a proxy replaces the method or the path. */
const OF_GATEWAYS =
  /^(x-original-.*|x-rewrite-.*|x-method-override|x-envoy-.*|x-forwarded-.*|forwarded|via|x-real-ip|x-jobgate-.*|idempotency-key|callback-url|prefer|x-chain-.*|x-x402-.*|x-http-.*|traceparent|tracestate)$/i;
/** Reports whether a header of a client is the client's own, and neither of its connection nor of a gateway. */
export function isEndToEnd(name: string): boolean {
  return PLAIN_NAME.test(name) && !OF_CONNECTION.test(name) && !OF_GATEWAYS.test(name);
}

/** Word in a list of headers that stands for every end-to-end header but credentials. */
export const ALL_HEADERS = "*";
/** Headers that a payment is bound to if all headers are forwarded. */
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
        (name) => isEndToEnd(name) && !NEVER_FORWARDED.some(({ names }) => names.test(name)),
      )
    : list;
  return listed.filter((name) => !ofConnection.includes(name));
}
