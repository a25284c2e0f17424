import { RateLimit, rateLimited } from "../../http/rate-limit.ts";

const WINDOW_SECS = 60;

/** Calls that ended without a charge, by payer and by client: each costs the API work that nobody pays. */
export class UnchargedCalls {
  readonly #counts = new RateLimit(WINDOW_SECS);

  count(...names: readonly (string | undefined)[]): void {
    for (const name of names) if (name !== undefined) this.#counts.exceeded(name, Number.POSITIVE_INFINITY);
  }

  /** @throws GatewayError `rate_limited` for a payer or client that has none left */
  check(limit: number, ...names: readonly string[]): void {
    for (const name of names) {
      const waitMs = this.#counts.exceeded(name, limit - 1, 0);
      if (waitMs !== undefined)
        throw rateLimited("Too many calls of yours ended without a charge. Nothing was charged", waitMs);
    }
  }
}
