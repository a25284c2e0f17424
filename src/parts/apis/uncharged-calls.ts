import { RateLimit, rateLimited } from "../../http/limits.ts";
import type { ApiConfig } from "./config.ts";

const WINDOW_SECS = 60;

type ApiLimit = Pick<ApiConfig, "name" | "unchargedPerMinute">;

/** Counts each API's uncharged calls by payer and by client, because the API does unpaid work for them. */
export class UnchargedCalls {
  readonly #counts = new RateLimit(WINDOW_SECS);

  count(api: string, ...names: readonly (string | undefined)[]): void {
    for (const name of names)
      if (name !== undefined) this.#counts.exceeded(keyOf(api, name), Number.POSITIVE_INFINITY);
  }

  /** @throws GatewayError `rate_limited` for a payer or client that has reached its limit */
  check({ name: api, unchargedPerMinute: limit }: ApiLimit, ...names: readonly string[]): void {
    for (const name of names) {
      const waitMs = this.#counts.exceeded(keyOf(api, name), limit - 1, 0);
      if (waitMs !== undefined)
        throw rateLimited("Too many calls of yours ended without a charge. Nothing was charged", waitMs);
    }
  }
}

const keyOf = (api: string, name: string) => `${name} ${api}`;
