import type { WebhookSecret } from "../../config/config.ts";
import type { AuthScheme, DeliveryIdSource } from "./auth-scheme.ts";
import {
  authenticBy,
  digestFromBase64,
  digestFromHex,
  equalDigests,
  firstOf,
  hmacKeys,
  type NamedKey,
  singleHeader,
} from "./signatures.ts";

// Schemes that sign the body alone with HMAC-SHA256, without a time.

/** Headers that may carry the signature. Each header that is present must verify. */
const SIGNATURE_HEADERS = ["x-signature-256", "x-hub-signature-256", "x-webhook-signature"] as const;
/** More than any sender has reason to send. */
const MAX_SIGNATURES = 16;

/**
 * `hmac-sha256`: the digest of the body's bytes as received, as hex in either case, with or without `sha256=`. At least
 * one signature header must be present, and every signature header must be right, because a sender with one valid and
 * one invalid signature is not trusted.
 */
export function plainHmac(secrets: readonly WebhookSecret[]): AuthScheme {
  const keys = hmacKeys(secrets);
  return {
    authenticate(request, body) {
      const sent = SIGNATURE_HEADERS.flatMap((header) => request.headerValues(header));
      if (sent.length === 0 || sent.length > MAX_SIGNATURES) return undefined;
      const digests = sent.map((value) => digestFromHex(value.replace(/^sha256=/i, "")));
      return authenticBy(keys, ({ key }) => {
        const expected = key.sign(body);
        return digests.every((digest) => equalDigests(digest, expected));
      });
    },
    signsBody: true,
    sign: (body) => ({
      "X-Signature-256": `sha256=${firstOf(keys).key.sign(body).toString("hex")}`,
    }),
  };
}

/**
 * `github`: `X-Hub-Signature-256: sha256=<hex>`. GitHub signs neither a time nor its delivery id.
 * https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
 */
export function github(secrets: readonly WebhookSecret[]): AuthScheme {
  const keys = hmacKeys(secrets);
  return {
    authenticate(request, body) {
      const [, hex = ""] = /^sha256=(.*)$/i.exec(singleHeader(request, "x-hub-signature-256") ?? "") ?? [];
      return authenticByDigest(keys, digestFromHex(hex), body);
    },
    signsBody: true,
    deliveryId: unsignedIdIn("x-github-delivery"),
    eventTypeHeader: "x-github-event",
    sign: (body, { deliveryId }) => ({
      "X-Hub-Signature-256": `sha256=${firstOf(keys).key.sign(body).toString("hex")}`,
      "X-GitHub-Delivery": deliveryId,
    }),
  };
}

/**
 * `shopify`: `X-Shopify-Hmac-Sha256: <base64>`, keyed with the app's client secret. `X-Shopify-Webhook-Id` identifies
 * the delivery; webhooks of several topics can share one `X-Shopify-Event-Id`.
 * https://shopify.dev/docs/apps/build/webhooks/verify-deliveries
 */
export function shopify(secrets: readonly WebhookSecret[]): AuthScheme {
  const keys = hmacKeys(secrets);
  return {
    authenticate(request, body) {
      const sent = digestFromBase64(singleHeader(request, "x-shopify-hmac-sha256") ?? "");
      return authenticByDigest(keys, sent, body);
    },
    signsBody: true,
    deliveryId: unsignedIdIn("x-shopify-webhook-id"),
    eventTypeHeader: "x-shopify-topic",
    sign: (body, { deliveryId }) => ({
      "X-Shopify-Hmac-Sha256": firstOf(keys).key.sign(body).toString("base64"),
      "X-Shopify-Webhook-Id": deliveryId,
    }),
  };
}

function authenticByDigest(keys: readonly NamedKey[], sent: Buffer | undefined, body: Uint8Array) {
  if (sent === undefined) return undefined;
  return authenticBy(keys, ({ key }) => equalDigests(sent, key.sign(body)));
}

function unsignedIdIn(header: string): DeliveryIdSource {
  return { header, isSigned: false, find: (request) => singleHeader(request, header) };
}
