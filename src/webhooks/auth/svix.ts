import type { WebhookSecret } from "../../config/config.ts";
import type { AuthScheme } from "./auth-scheme.ts";
import { standardWebhooks } from "./standard-webhooks.ts";

/**
 * Standard Webhooks under the names that came before: `svix-id`, `svix-timestamp`, `svix-signature`.
 * https://docs.svix.com/receiving/verifying-payloads/how-manual
 */
export function svix(secrets: readonly WebhookSecret[], toleranceSecs: number): AuthScheme {
  return standardWebhooks(secrets, toleranceSecs, "svix");
}
