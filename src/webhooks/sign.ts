import type { WebhookEndpoint } from "../config/config.ts";
import { hmacSha256 } from "./auth/hmac-sha256.ts";

/**
 * The headers that a sender must send with a body for an endpoint to accept it: none when the endpoint asks
 * for nothing. For `bearer` and `api-key` they hold the secret itself.
 */
export function signWebhook({ auth }: WebhookEndpoint, body: Uint8Array): Record<string, string> {
  switch (auth.mode) {
    case "none":
      return {};
    case "bearer":
      return { Authorization: `Bearer ${auth.secret}` };
    case "api-key":
      return { [auth.header]: auth.secret };
    case "hmac-sha256":
      return { "X-Signature-256": `sha256=${hmacSha256(body, auth.secret).toString("hex")}` };
  }
}
