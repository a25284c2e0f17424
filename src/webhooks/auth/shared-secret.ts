import type { WebhookSecret } from "../../config/config.ts";
import { equalInConstantTime } from "../../core/constant-time.ts";
import { bearerToken } from "../../http/request.ts";
import type { AuthScheme } from "./auth-scheme.ts";
import { authenticBy, firstOf } from "./signatures.ts";

// Schemes in which the sender sends the secret itself, and the scheme without a secret.

/** `none`: accepts every request. */
export function noAuth(): AuthScheme {
  return { authenticate: () => ({}), signsBody: false, sign: () => ({}) };
}

/** `bearer`: `Authorization: Bearer <token>`, sent once, with a configured token in the configured letter case. */
export function bearer(secrets: readonly WebhookSecret[]): AuthScheme {
  return {
    authenticate(request) {
      const token = bearerToken(request);
      if (token === undefined) return undefined;
      return authenticBy(secrets, ({ secret }) => equalInConstantTime(token, secret));
    },
    signsBody: false,
    sign: () => ({ Authorization: `Bearer ${firstOf(secrets).secret}` }),
  };
}

/** `api-key`: the key alone in a header, sent once. */
export function apiKey(secrets: readonly WebhookSecret[], header: string): AuthScheme {
  return {
    authenticate(request) {
      const [key, ...others] = request.headerValues(header.toLowerCase());
      if (key === undefined || others.length > 0) return undefined;
      return authenticBy(secrets, ({ secret }) => equalInConstantTime(key, secret));
    },
    signsBody: false,
    sign: () => ({ [header]: firstOf(secrets).secret }),
  };
}

/** `url-token`: the secret is the path segment after the endpoint's path, for senders that can set no header. */
export function urlToken(secrets: readonly WebhookSecret[], endpointPath: string): AuthScheme {
  const prefix = `${endpointPath}/`;
  return {
    authenticate({ path }) {
      if (!path.startsWith(prefix)) return undefined;
      const token = path.slice(prefix.length);
      return authenticBy(secrets, ({ secret }) => equalInConstantTime(token, secret));
    },
    signsBody: false,
    sign: () => ({}),
  };
}
