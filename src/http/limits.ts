import { GatewayError } from "../core/errors.ts";

/** Default timeouts of a server, in milliseconds. */
export const DEFAULT_TIMEOUTS = {
  /** Time a client has to send its headers. */
  headersMs: 10_000,
  /** Time a client has to send its whole request. */
  requestMs: 30_000,
  /** Time a connection may be idle between two requests. */
  keepAliveMs: 65_000,
  /**
   * Time after a written answer after which the client is taken to have read the answer. During this time, the
   * connection must be silent and must not be reset. The time is less than `keepAliveMs`.
   */
  quietMs: 30_000,
  /** Time after `unmount` that a client has to finish sending a request. */
  stopUploadMs: 5_000,
  /** Time after `unmount` that requests in progress have, including settlements, before their sockets are closed. */
  stopMs: 90_000,
};

export type HttpTimeouts = Readonly<typeof DEFAULT_TIMEOUTS>;

/** Most bytes of request line and headers together; a payment header is 1 to 4 KiB. */
export const MAX_HEADER_BYTES = 32 * 1024;
/** Silence before TCP probes whether the peer is still there. */
export const TCP_KEEP_ALIVE_MS = 30_000;

/** Uses of one key within its current window. */
interface Window {
  readonly endsAt: number;
  uses: number;
}

/**
 * Counts uses by key in windows of a fixed length. Each use names its limit, so one object serves keys with different limits,
 * and a reload that changes a limit keeps the counts.
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

/** Bounds of work in progress. */
interface WorkBounds {
  readonly perClient: number;
  readonly total: number;
  /** Start of the message of a refusal. */
  readonly reason: string;
}

/** Counts work in progress, for each client and in all. Each call passes the bounds, so a reload can change them. */
export class WorkLimit {
  readonly #byClient = new Map<string, number>();
  #total = 0;

  /** Does the work if the client and all clients together have room for one more piece. @throws GatewayError `rate_limited` */
  async run<Result>(client: string, bounds: WorkBounds, work: () => Promise<Result>): Promise<Result> {
    const ofClient = this.#byClient.get(client) ?? 0;
    if (ofClient >= bounds.perClient || this.#total >= bounds.total) throw rateLimited(bounds.reason, 1_000);
    this.#byClient.set(client, ofClient + 1);
    this.#total++;
    try {
      return await work();
    } finally {
      this.#total--;
      const left = (this.#byClient.get(client) ?? 1) - 1;
      if (left === 0) this.#byClient.delete(client);
      else this.#byClient.set(client, left);
    }
  }
}
