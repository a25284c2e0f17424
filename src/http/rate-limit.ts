import { GatewayError } from "../core/errors.ts";

/** Uses of one key in its window. */
interface Window {
  readonly endsAt: number;
  uses: number;
}

/**
 * Counts uses by key in windows of a fixed length. The limit comes with each use, so one object serves keys with
 * different limits and keeps its counts when a reload changes them.
 */
export class RateLimit {
  readonly #windowMs: number;
  /** Windows in the order in which they end, because all have the same length. */
  readonly #windows = new Map<string, Window>();

  constructor(windowSecs = 1) {
    this.#windowMs = windowSecs * 1_000;
  }

  /** Counts uses. @returns undefined within the limit; otherwise the milliseconds until the window ends */
  exceeded(key: string, limit: number, uses = 1): number | undefined {
    const now = performance.now();
    for (const [ended, { endsAt }] of this.#windows) {
      if (endsAt > now) break;
      this.#windows.delete(ended);
    }
    const window = this.#windows.get(key) ?? { endsAt: now + this.#windowMs, uses: 0 };
    this.#windows.set(key, window);
    window.uses += uses;
    return window.uses > limit ? window.endsAt - now : undefined;
  }

  /**
   * Counts one use.
   * @param reason start of the refusal's message
   * @throws GatewayError `rate_limited` above the limit
   */
  count(key: string, limit: number, reason: string): void {
    const waitMs = this.exceeded(key, limit);
    if (waitMs !== undefined) throw rateLimited(reason, waitMs);
  }
}

/** Refusal that tells the client when to try again, in its message and in `Retry-After`. */
export function rateLimited(reason: string, waitMs: number): GatewayError {
  const retryAfterSecs = Math.max(1, Math.ceil(waitMs / 1000));
  return new GatewayError("rate_limited", `${reason}: try again in ${retryAfterSecs} s.`, {
    headers: { "retry-after": String(retryAfterSecs) },
  });
}
