import { randomBytes } from "node:crypto";
import { boundedCache } from "../../../core/bounded-cache.ts";
import { equalInConstantTime } from "../../../core/constant-time.ts";
import type { AccessTokens } from "../../calls/access-tokens.ts";

/** Tool calls that one session, and one process, may wait for at once. */
const MAX_CALLS_PER_SESSION = 64;
const MAX_CALLS = 1_000;
/** Sessions remembered as ended. */
const MAX_ENDED = 10_000;

/** Data that a session's client sent when it began. */
export interface Session {
  readonly id: string;
  /** The client pays over MPP, and expects challenges as errors. */
  readonly paysByMpp: boolean;
}

/** Sessions. Each is encoded in its id, so it goes on after a restart and at another replica. */
export class Sessions {
  readonly #tokens: AccessTokens;
  readonly #ended = boundedCache<string, true>(MAX_ENDED);
  readonly #callsByKey = new Map<string, number>();
  #calls = 0;

  constructor(tokens: AccessTokens) {
    this.#tokens = tokens;
  }

  begin(origin: string | undefined, paysByMpp: boolean): Session {
    const text = `${randomBytes(16).toString("base64url")}.${paysByMpp ? "mpp" : "x402"}`;
    return { id: `${text}.${this.#seal(text, origin)}`, paysByMpp };
  }

  /** Returns the session with an id; undefined if it has ended, or was begun by another origin. */
  find(id: string, origin: string | undefined): Session | undefined {
    const [random = "", kind = "", seal = ""] = id.split(".");
    if (!equalInConstantTime(seal, this.#seal(`${random}.${kind}`, origin))) return undefined;
    return this.#ended.get(id) ? undefined : { id, paysByMpp: kind === "mpp" };
  }

  end({ id }: Session): void {
    this.#ended.set(id, true);
  }

  /** Counts a tool call until the returned function is called. @returns undefined when there are too many */
  takeCall(key: string): (() => void) | undefined {
    const ofKey = this.#callsByKey.get(key) ?? 0;
    if (ofKey >= MAX_CALLS_PER_SESSION || this.#calls >= MAX_CALLS) return undefined;
    this.#callsByKey.set(key, ofKey + 1);
    this.#calls++;
    return () => {
      this.#calls--;
      const left = (this.#callsByKey.get(key) ?? 1) - 1;
      if (left === 0) this.#callsByKey.delete(key);
      else this.#callsByKey.set(key, left);
    };
  }

  #seal(text: string, origin: string | undefined): string {
    return this.#tokens.seal(`mcp session\n${text}\n${origin ?? ""}`);
  }
}
