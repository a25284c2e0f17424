import type { RetryBackoff } from "../contract/work-queue.ts";

/**
 * Milliseconds before the attempt after number `attempt` (1 is the first): exponential, capped, full jitter.
 * @param random in [0, 1)
 */
export function retryDelayMs(backoff: RetryBackoff, attempt: number, random: number): number {
  // Beyond 52 doublings nothing changes but the risk of infinity.
  const uncapped = backoff.baseMs * 2 ** Math.min(attempt - 1, 52);
  return Math.floor(Math.min(uncapped, backoff.maxMs) * random);
}
