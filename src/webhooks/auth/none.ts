import type { AuthScheme } from "./auth-scheme.ts";

/** Whoever can reach the endpoint may call it. */
export function noAuth(): AuthScheme {
  return { authenticate: () => ({}), signsBody: false, sign: () => ({}) };
}
