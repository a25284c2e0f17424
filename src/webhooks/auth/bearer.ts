import type { WebhookSecret } from "../../config/config.ts";
import { equalInConstantTime } from "../../core/constant-time.ts";
import { bearerToken } from "../../http/request.ts";
import type { AuthScheme } from "./auth-scheme.ts";
import { firstSecret } from "./first-secret.ts";

/** `Authorization: Bearer <token>`, sent once, with a configured token in the configured letter case. */
export function bearer(secrets: readonly WebhookSecret[]): AuthScheme {
  return {
    authenticate(request) {
      const token = bearerToken(request);
      if (token === undefined) return undefined;
      const used = secrets.find(({ secret }) => equalInConstantTime(token, secret));
      return used && { secretName: used.name };
    },
    signsBody: false,
    sign: () => ({ Authorization: `Bearer ${firstSecret(secrets)}` }),
  };
}
