import { randomUUID } from "node:crypto";
import type { WebhookEndpoint } from "../config/config.ts";
import type { SignOptions } from "./auth/auth-scheme.ts";
import { firstSecret } from "./auth/first-secret.ts";
import { schemeOf } from "./auth/scheme-of.ts";

/**
 * The headers that a sender must send with a body for an endpoint to accept it: none when the endpoint asks
 * for nothing, or for something that is not in a header. For `bearer` and `api-key` they hold the secret itself.
 * @param options default: signed now, as a new delivery
 * @throws CannotSign when the endpoint knows only the sender's public key and no `signingKey` is given, or when it would
 *   refuse the delivery's id
 */
export function signWebhook(
  endpoint: WebhookEndpoint,
  body: Uint8Array,
  options: Partial<SignOptions> = {},
): Record<string, string> {
  return schemeOf(endpoint).sign(body, { now: Date.now(), deliveryId: randomUUID(), ...options });
}

/** The path that a sender must send to, with the secret in it when that is where it belongs. */
export function webhookPath({ path, auth }: WebhookEndpoint): string {
  return auth.mode === "url-token" ? `${path}/${firstSecret(auth.secrets)}` : path;
}
