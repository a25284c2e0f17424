import type { WebhookSecret } from "../../config/config.ts";
import type { AuthScheme } from "./auth-scheme.ts";
import { textField } from "./body-fields.ts";
import { digestFromHex, equalDigests, hmacSha256 } from "./digest.ts";
import { firstSecret } from "./first-secret.ts";
import { isTimely, signedTime } from "./signed-time.ts";
import { singleHeader } from "./single-header.ts";

/** Of all kinds, in one header. Stripe sends one for each secret that is valid, and one `v0`. */
const MAX_SIGNATURES = 16;

/**
 * `Stripe-Signature: t=<Unix seconds>,v1=<hex>[,v1=<hex>…]` over `<t>.<body>`; what is not `v1` is ignored. The event
 * id is in the body, and so it is signed.
 * https://docs.stripe.com/webhooks/signature#verify-manually
 */
export function stripe(secrets: readonly WebhookSecret[], toleranceSecs: number): AuthScheme {
  return {
    authenticate(request, body, now) {
      const header = parseHeader(singleHeader(request, "stripe-signature") ?? "");
      if (header === undefined || !isTimely(header.time, now, toleranceSecs)) return undefined;
      const used = secrets.find(({ secret }) => {
        const expected = hmacSha256(secret, `${header.time}.`, body);
        return header.digests.some((digest) => equalDigests(digest, expected));
      });
      return used && { secretName: used.name };
    },
    signsBody: true,
    deliveryId: {
      isSigned: true,
      find: (_, body) => textField(body, "id"),
      // Counts down while the event is delivered to other endpoints.
      lastingBody: (body) =>
        Buffer.from(body)
          .toString("latin1")
          .replace(/"pending_webhooks":\s*\d+/, ""),
    },
    sign(body, { now }) {
      const time = signedTime(now);
      const digest = hmacSha256(firstSecret(secrets), `${time}.`, body).toString("hex");
      return { "Stripe-Signature": `t=${time},v1=${digest}` };
    },
  };
}

function parseHeader(value: string): { time: string; digests: Buffer[] } | undefined {
  const items = value.split(",", MAX_SIGNATURES + 2);
  if (items.length > MAX_SIGNATURES + 1) return undefined;
  const valuesOf = (key: string) =>
    items.flatMap((item) => (item.startsWith(`${key}=`) ? [item.slice(key.length + 1)] : []));
  const [time, ...otherTimes] = valuesOf("t");
  if (time === undefined || otherTimes.length > 0) return undefined;
  return { time, digests: valuesOf("v1").flatMap((hex) => digestFromHex(hex) ?? []) };
}
