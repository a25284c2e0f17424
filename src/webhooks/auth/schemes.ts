import { randomUUID } from "node:crypto";
import type { WebhookEndpoint } from "../../config/config.ts";
import type { AuthScheme, SignedDelivery } from "./auth-scheme.ts";
import { github, plainHmac, shopify } from "./body-hmac.ts";
import { apiKey, bearer, noAuth, urlToken } from "./shared-secret.ts";
import { firstOf } from "./signatures.ts";
import { standardWebhooks } from "./standard-webhooks.ts";
import { slack, stripe } from "./timed-hmac.ts";

/** Returns the scheme of an endpoint's `auth.mode`, with the endpoint's secrets. */
export function schemeOf({ auth, path }: WebhookEndpoint): AuthScheme {
  switch (auth.mode) {
    case "none":
      return noAuth();
    case "bearer":
      return bearer(auth.secrets);
    case "api-key":
      return apiKey(auth.secrets, auth.header);
    case "hmac-sha256":
      return plainHmac(auth.secrets);
    case "standard-webhooks":
      return standardWebhooks(auth.secrets, auth.toleranceSecs, "webhook");
    case "svix":
      return standardWebhooks(auth.secrets, auth.toleranceSecs, "svix");
    case "github":
      return github(auth.secrets);
    case "stripe":
      return stripe(auth.secrets, auth.toleranceSecs);
    case "slack":
      return slack(auth.secrets, auth.toleranceSecs);
    case "shopify":
      return shopify(auth.secrets);
    case "url-token":
      return urlToken(auth.secrets, path);
  }
}

/**
 * Returns the headers that a sender must send with a body for the endpoint to accept it. They are empty if the endpoint
 * needs no secret, or has the secret in the URL; for `bearer` and `api-key` they contain the secret itself.
 * @param delivery default: a new delivery, signed now
 * @throws CannotSign when the endpoint knows only the sender's public key and `signingKey` is missing, or when it would
 *   refuse the delivery id
 */
export function signWebhook(
  endpoint: WebhookEndpoint,
  body: Uint8Array,
  delivery: Partial<SignedDelivery> = {},
): Record<string, string> {
  return schemeOf(endpoint).sign(body, { now: Date.now(), deliveryId: randomUUID(), ...delivery });
}

/** Returns the path that a sender must send to, including the secret if the scheme puts it in the path. */
export function webhookPath({ path, auth }: WebhookEndpoint): string {
  return auth.mode === "url-token" ? `${path}/${firstOf(auth.secrets).secret}` : path;
}
