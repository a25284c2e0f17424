import type { WebhookSecret } from "../../config/config.ts";
import { equalInConstantTime } from "../../core/constant-time.ts";
import type { AuthScheme } from "./auth-scheme.ts";

/** For senders that can set no header: the secret is the last segment of the URL's path, after the endpoint's own. */
export function urlToken(secrets: readonly WebhookSecret[], endpointPath: string): AuthScheme {
  const prefix = `${endpointPath}/`;
  return {
    authenticate({ path }) {
      if (!path.startsWith(prefix)) return undefined;
      const token = path.slice(prefix.length);
      const used = secrets.find(({ secret }) => equalInConstantTime(token, secret));
      return used && { secretName: used.name };
    },
    signsBody: false,
    sign: () => ({}),
  };
}
