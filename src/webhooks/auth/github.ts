import type { WebhookSecret } from "../../config/config.ts";
import type { AuthScheme } from "./auth-scheme.ts";
import { digestFromHex, equalDigests, hmacSha256 } from "./digest.ts";
import { firstSecret } from "./first-secret.ts";
import { singleHeader } from "./single-header.ts";

const DELIVERY_HEADER = "x-github-delivery";

/**
 * `X-Hub-Signature-256: sha256=<hex>` over the body alone: GitHub signs neither a time nor its delivery id.
 * https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
 */
export function github(secrets: readonly WebhookSecret[]): AuthScheme {
  return {
    authenticate(request, body) {
      const [, hex = ""] = /^sha256=(.*)$/i.exec(singleHeader(request, "x-hub-signature-256") ?? "") ?? [];
      const sent = digestFromHex(hex);
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
      "X-Hub-Signature-256": `sha256=${hmacSha256(firstSecret(secrets), body).toString("hex")}`,
      "X-GitHub-Delivery": deliveryId,
    }),
  };
}
