import type { WebhookSecret } from "../../config/config.ts";
import type { AuthScheme } from "./auth-scheme.ts";
import { digestFromBase64, equalDigests, hmacSha256 } from "./digest.ts";
import { firstSecret } from "./first-secret.ts";
import { singleHeader } from "./single-header.ts";

const DELIVERY_HEADER = "x-shopify-webhook-id";

/**
 * `X-Shopify-Hmac-Sha256: <base64>` over the body alone, keyed with the app's client secret.
 * `X-Shopify-Webhook-Id` is the delivery; `X-Shopify-Event-Id` would be shared by webhooks of several topics.
 * https://shopify.dev/docs/apps/build/webhooks/verify-deliveries
 */
export function shopify(secrets: readonly WebhookSecret[]): AuthScheme {
  return {
    authenticate(request, body) {
      const sent = digestFromBase64(singleHeader(request, "x-shopify-hmac-sha256") ?? "");
      if (sent === undefined) return undefined;
      const used = secrets.find(({ secret }) => equalDigests(sent, hmacSha256(secret, body)));
      return used && { secretName: used.name };
    },
    signsBody: true,
    deliveryId: {
      header: DELIVERY_HEADER,
      isSigned: false,
      find: (request) => singleHeader(request, DELIVERY_HEADER),
    },
    sign: (body, { deliveryId }) => ({
      "X-Shopify-Hmac-Sha256": hmacSha256(firstSecret(secrets), body).toString("base64"),
      "X-Shopify-Webhook-Id": deliveryId,
    }),
  };
}
