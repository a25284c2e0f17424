import type { Logger } from "pino";
import type { WebhookEndpoint } from "../config/config.ts";
import type { Clock } from "../core/clock.ts";

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
  const currentName = auth.mode === "none" ? undefined : auth.secrets[0]?.name;
  const remindedAt = new Map<string, number>();
  return (secretName) => {
    if (secretName === undefined) return;
    logger.debug({ endpoint: path, secretName }, "webhook authenticated");
    if (secretName === currentName) return;
    const now = clock();
    if (now - (remindedAt.get(secretName) ?? Number.NEGATIVE_INFINITY) < REMINDER_MS) return;
    remindedAt.set(secretName, now);
    logger.info({ endpoint: path, secretName, currentName }, "a sender still uses an old webhook secret");
  };
}
