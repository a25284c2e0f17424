import type { WebhookSecret } from "../../config/config.ts";
import type { AuthScheme } from "./auth-scheme.ts";
import { digestFromHex, equalDigests, hmacSha256 } from "./digest.ts";
import { firstSecret } from "./first-secret.ts";

/** Where senders put their signature; each of these that is present must verify. */
const SIGNATURE_HEADERS = ["x-signature-256", "x-hub-signature-256", "x-webhook-signature"] as const;
/** More than any sender has reason to send. */
const MAX_SIGNATURES = 16;

/**
 * HMAC-SHA256 over the body's bytes exactly as they were received, as hex in either case, with or without `sha256=`.
 * At least one signature header, and every one that was sent is right: a sender that sends one good and one bad
 * signature is not to be trusted with either.
 */
export function plainHmac(secrets: readonly WebhookSecret[]): AuthScheme {
  return {
    authenticate(request, body) {
      const sent = SIGNATURE_HEADERS.flatMap((header) => request.headerValues(header));
      if (sent.length === 0 || sent.length > MAX_SIGNATURES) return undefined;
      const digests = sent.map((value) => digestFromHex(value.replace(/^sha256=/i, "")));
      const used = secrets.find(({ secret }) => {
        const expected = hmacSha256(secret, body);
        return digests.every((digest) => equalDigests(digest, expected));
      });
      return used && { secretName: used.name };
    },
    signsBody: true,
    sign: (body) => ({
      "X-Signature-256": `sha256=${hmacSha256(firstSecret(secrets), body).toString("hex")}`,
    }),
  };
}
