import type { TokenRate } from "../../x402/prices/token-rates.ts";

/** Rate that a live source gave. */
export type LiveValue = Required<TokenRate>;

/**
 * Queries a source once, within its time-out.
 * @throws RateProblem
 */
export type AskRate = () => Promise<LiveValue>;

/** A source gives no usable rate. The message is for the operator, and holds no URL, which may hold a key. */
export class RateProblem extends Error {
  /** Configuration key to look at. */
  readonly key: "rpc_url" | "feed" | "url" | "pointer" | "max_age_secs";

  /** @param cause why the server gave no answer, if it gave none */
  constructor(key: RateProblem["key"], message: string, cause?: unknown) {
    super(message, cause === undefined ? {} : { cause });
    this.key = key;
  }
}
