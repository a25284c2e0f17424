import type { WebhookSecret } from "../../config/config.ts";
import type { AuthScheme } from "./auth-scheme.ts";
import {
  authenticBy,
  digestFromHex,
  equalDigests,
  firstOf,
  hmacKeys,
  isTimely,
  signedTime,
  singleHeader,
  textFields,
} from "./signatures.ts";

// Schemes that sign a time and the body with HMAC-SHA256, and have the delivery id inside the body.

/**
 * `slack`: `X-Slack-Signature: v0=<hex>` over `v0:<X-Slack-Request-Timestamp>:<body>`. Events have their ID in the body.
 * Slash commands and interactions have no ID, but their bodies are always unique. A retry has a new time.
 * https://docs.slack.dev/authentication/verifying-requests-from-slack
 */
export function slack(secrets: readonly WebhookSecret[], toleranceSecs: number): AuthScheme {
  const keys = hmacKeys(secrets);
  return {
    authenticate(request, body, now) {
      const time = singleHeader(request, "x-slack-request-timestamp") ?? "";
      const [, hex = ""] = /^v0=(.*)$/.exec(singleHeader(request, "x-slack-signature") ?? "") ?? [];
      const sent = digestFromHex(hex);
      if (sent === undefined || !isTimely(time, now, toleranceSecs)) return undefined;
      return authenticBy(keys, ({ key }) => equalDigests(sent, key.sign(body, `v0:${time}:`)));
    },
    signsBody: true,
    deliveryId: { isSigned: true, find: (_, body) => textFields(body, ["event_id"]).event_id },
    handshake(body) {
      const { type, challenge } = textFields(body, ["type", "challenge"]);
      return type === "url_verification" ? challenge : undefined;
    },
    sign(body, { now }) {
      const time = signedTime(now);
      const digest = firstOf(keys).key.sign(body, `v0:${time}:`).toString("hex");
      return { "X-Slack-Request-Timestamp": time, "X-Slack-Signature": `v0=${digest}` };
    },
  };
}

/** Most signatures of all versions in one header. Stripe sends one for each valid secret, and one `v0`. */
const MAX_STRIPE_SIGNATURES = 16;

/**
 * `stripe`: `Stripe-Signature: t=<Unix seconds>,v1=<hex>[,v1=<hex>…]` over `<t>.<body>`. Other versions than `v1` are
 * ignored. The event id is in the signed body.
 * https://docs.stripe.com/webhooks/signature#verify-manually
 */
export function stripe(secrets: readonly WebhookSecret[], toleranceSecs: number): AuthScheme {
  const keys = hmacKeys(secrets);
  return {
    authenticate(request, body, now) {
      const header = parseStripeHeader(singleHeader(request, "stripe-signature") ?? "");
      if (header === undefined || !isTimely(header.time, now, toleranceSecs)) return undefined;
      return authenticBy(keys, ({ key }) => {
        const expected = key.sign(body, `${header.time}.`);
        return header.digests.some((digest) => equalDigests(digest, expected));
      });
    },
    signsBody: true,
    deliveryId: {
      isSigned: true,
      find: (_, body) => textFields(body, ["id"]).id,
      // The count `pending_webhooks` falls while Stripe delivers the event to other endpoints.
      lastingBody: (body) =>
        Buffer.from(body)
          .toString("latin1")
          .replace(/"pending_webhooks":\s*\d+/, ""),
    },
    sign(body, { now }) {
      const time = signedTime(now);
      const digest = firstOf(keys).key.sign(body, `${time}.`).toString("hex");
      return { "Stripe-Signature": `t=${time},v1=${digest}` };
    },
  };
}

function parseStripeHeader(value: string): { time: string; digests: Buffer[] } | undefined {
  const items = value.split(",", MAX_STRIPE_SIGNATURES + 2);
  if (items.length > MAX_STRIPE_SIGNATURES + 1) return undefined;
  const valuesOf = (key: string) =>
    items.flatMap((item) => (item.startsWith(`${key}=`) ? [item.slice(key.length + 1)] : []));
  const [time, ...otherTimes] = valuesOf("t");
  if (time === undefined || otherTimes.length > 0) return undefined;
  return { time, digests: valuesOf("v1").flatMap((hex) => digestFromHex(hex) ?? []) };
}
