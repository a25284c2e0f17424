import type { WebhookSecret } from "../../config/config.ts";
import { equalInConstantTime } from "../../core/constant-time.ts";
import type { AuthScheme } from "./auth-scheme.ts";
import { firstSecret } from "./first-secret.ts";

/** The key alone in a header, sent once. `header` is lower case. */
export function apiKey(secrets: readonly WebhookSecret[], header: string): AuthScheme {
  return {
    authenticate(request) {
      const [key, ...others] = request.headerValues(header);
      if (key === undefined || others.length > 0) return undefined;
      const used = secrets.find(({ secret }) => equalInConstantTime(key, secret));
      return used && { secretName: used.name };
    },
    signsBody: false,
    sign: () => ({ [header]: firstSecret(secrets) }),
  };
}
