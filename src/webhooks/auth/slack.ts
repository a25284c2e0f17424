import type { WebhookSecret } from "../../config/config.ts";
import type { AuthScheme } from "./auth-scheme.ts";
import { textField, textFields } from "./body-fields.ts";
import { digestFromHex, equalDigests, hmacSha256 } from "./digest.ts";
import { firstSecret } from "./first-secret.ts";
import { isTimely, signedTime } from "./signed-time.ts";
import { singleHeader } from "./single-header.ts";

/**
 * `X-Slack-Signature: v0=<hex>` over `v0:<X-Slack-Request-Timestamp>:<body>`. Events have their id in the body; slash
 * commands and interactions have none, but no two bodies of them are the same. A retry has a time of its own.
 * https://docs.slack.dev/authentication/verifying-requests-from-slack
 */
export function slack(secrets: readonly WebhookSecret[], toleranceSecs: number): AuthScheme {
  return {
    authenticate(request, body, now) {
      const time = singleHeader(request, "x-slack-request-timestamp") ?? "";
      const [, hex = ""] = /^v0=(.*)$/.exec(singleHeader(request, "x-slack-signature") ?? "") ?? [];
      const sent = digestFromHex(hex);
      if (sent === undefined || !isTimely(time, now, toleranceSecs)) return undefined;
      const used = secrets.find(({ secret }) => equalDigests(sent, hmacSha256(secret, `v0:${time}:`, body)));
      return used && { secretName: used.name };
    },
    signsBody: true,
    deliveryId: { isSigned: true, find: (_, body) => textField(body, "event_id") },
    handshake(body) {
      const { type, challenge } = textFields(body, ["type", "challenge"]);
      return type === "url_verification" ? challenge : undefined;
    },
    sign(body, { now }) {
      const time = signedTime(now);
      const digest = hmacSha256(firstSecret(secrets), `v0:${time}:`, body).toString("hex");
      return { "X-Slack-Request-Timestamp": time, "X-Slack-Signature": `v0=${digest}` };
    },
  };
}
