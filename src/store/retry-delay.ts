import type { RetryBackoff } from "./store.ts";

/**
 * Milliseconds before the attempt after number `attempt` (1 is the first): exponential, capped, full jitter.
 * @param random in [0, 1)
 */
export function retryDelayMs(backoff: RetryBackoff, attempt: number, random: number): number {
  const uncapped = backoff.baseMs * 2 ** (attempt - 1);
  return Math.floor(Math.min(uncapped, backoff.maxMs) * random);
}
