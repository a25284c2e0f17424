import type { Logger } from "pino";
import type { Clock } from "../clock.ts";
import type { WebhookEndpoint } from "../config/config.ts";

/** Between two lines about the same old secret. */
const REMINDER_MS = 60 * 60_000;

/** Logs, by name, which secret of an endpoint was used, so that the operator sees when an old one can go. */
export type SecretUse = (secretName: string | undefined) => void;

export function createSecretUse(options: {
  readonly endpoint: WebhookEndpoint;
  readonly logger: Logger;
  readonly clock: Clock;
}): SecretUse {
  const { endpoint, logger, clock } = options;
  const { path, auth } = endpoint;
  const current = auth.mode === "none" ? undefined : auth.secrets[0]?.name;
  const remindedAt = new Map<string, number>();
  return (secret) => {
    if (secret === undefined) return;
    logger.debug({ endpoint: path, secret }, "webhook authenticated");
    if (secret === current) return;
    const now = clock();
    if (now - (remindedAt.get(secret) ?? Number.NEGATIVE_INFINITY) < REMINDER_MS) return;
    remindedAt.set(secret, now);
    logger.info({ endpoint: path, secret, current }, "a sender still uses an old webhook secret");
  };
}
