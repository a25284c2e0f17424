import { randomBytes } from "node:crypto";
import { boundedCache } from "../../core/bounded-cache.ts";
import { equalInConstantTime } from "../../core/constant-time.ts";
import type { AccessTokens } from "../../x402/calls/access-tokens.ts";

/** Most sessions that are remembered as ended. */
const MAX_ENDED = 10_000;

/** Data that a session's client sent when it began. */
export interface Session {
  readonly id: string;
  /**
   * True if the client announced the capability `payment`. Such a client pays over another protocol than x402, and
   * expects demands for payment as errors.
   */
  readonly expectsErrors: boolean;
}

/** Sessions. A session is encoded in its ID, so it survives a restart and works at every replica. */
export class Sessions {
  readonly #tokens: AccessTokens;
  readonly #ended = boundedCache<string, true>(MAX_ENDED);

  constructor(tokens: AccessTokens) {
    this.#tokens = tokens;
  }

  begin(origin: string | undefined, expectsErrors: boolean): Session {
    const text = `${randomBytes(16).toString("base64url")}.${expectsErrors ? "mpp" : "x402"}`;
    return { id: `${text}.${this.#seal(text, origin)}`, expectsErrors };
  }

  /** Returns the session with an id; undefined if it has ended, or was begun by another origin. */
  find(id: string, origin: string | undefined): Session | undefined {
    // The whole text is compared, because a text after the seal would otherwise make further IDs of the same session.
    const [, text = "", kind, seal = ""] = /^([\w-]+\.(mpp|x402))\.([\w-]+)$/.exec(id) ?? [];
    if (!equalInConstantTime(seal, this.#seal(text, origin))) return undefined;
    return this.#ended.get(id) ? undefined : { id, expectsErrors: kind === "mpp" };
  }

  end({ id }: Session): void {
    this.#ended.set(id, true);
  }

  #seal(text: string, origin: string | undefined): string {
    return this.#tokens.seal(`mcp session\n${text}\n${origin ?? ""}`);
  }
}
