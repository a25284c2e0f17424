import type { WebhookSecret } from "../../config/config.ts";

/** The one that senders are to use now. */
export function firstSecret(secrets: readonly WebhookSecret[]): string {
  const [first] = secrets;
  if (first === undefined) throw new Error("an endpoint has no secret");
  return first.secret;
}
