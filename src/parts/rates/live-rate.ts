import type { PeerProblem } from "../../config/config.ts";
import { type Clock, systemClock } from "../../core/clock.ts";
import { unreachableText } from "../../node/unreachable.ts";
import { createChainlinkRate } from "./chainlink-rate.ts";
import type { RateSource } from "./config.ts";
import { createHttpRate } from "./http-rate.ts";
import { type AskRate, type LiveValue, RateProblem } from "./rate.ts";

/** Longest time that one query may take. */
const MAX_QUESTION_MS = 5_000;

/** Rate of one live source, which gets one query at a time. The last good value is used until it is too old. */
export class LiveRate {
  readonly #ask: AskRate;
  readonly #maxAgeMs: number;
  readonly #refreshMs: number;
  readonly #clock: Clock;
  readonly #onFailing: (problem: string) => void;
  readonly #onRecovered: () => void;
  #latest: LiveValue | undefined;
  #failure: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  /** @param parts `onFailing` is called when queries start to fail, `onRecovered` when they succeed again */
  constructor(parts: {
    readonly source: RateSource;
    readonly clock: Clock;
    readonly onFailing: (problem: string) => void;
    readonly onRecovered: () => void;
  }) {
    this.#ask = askSource(parts.source, parts.clock);
    this.#maxAgeMs = parts.source.maxAgeMs;
    this.#refreshMs = parts.source.refreshMs;
    this.#clock = parts.clock;
    this.#onFailing = parts.onFailing;
    this.#onRecovered = parts.onRecovered;
  }

  /** Starts the queries. Resolves once the first query was answered or has failed. */
  start(): Promise<void> {
    return this.#refresh();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  /** Returns the last good value, while it is young enough to be used. */
  usable(): LiveValue | undefined {
    return this.#latest !== undefined && this.#isFresh(this.#latest) ? this.#latest : undefined;
  }

  /** Returns the last good value, however old. */
  latest(): LiveValue | undefined {
    return this.#latest;
  }

  /** Returns the reason why the last query failed, or why there is no usable value. */
  problem(): string | undefined {
    if (this.#failure !== undefined) return this.#failure;
    if (this.#latest === undefined) return "it was not queried yet";
    return this.#isFresh(this.#latest) ? undefined : "its last answer is too old";
  }

  async #refresh(): Promise<void> {
    const started = performance.now();
    const answer = await this.#ask().catch(problemOf);
    if (this.#stopped) return;
    if (typeof answer === "string") {
      if (this.#failure === undefined) this.#onFailing(answer);
      this.#failure = answer;
    } else {
      if (this.#failure !== undefined) this.#onRecovered();
      this.#failure = undefined;
      this.#latest = answer;
    }
    const waitMs = Math.max(0, this.#refreshMs - (performance.now() - started));
    this.#timer = setTimeout(() => void this.#refresh(), waitMs).unref();
  }

  #isFresh({ asOf }: LiveValue): boolean {
    return this.#clock() - asOf <= this.#maxAgeMs;
  }
}

/**
 * Queries a token's source once, for `jobgate check --online`.
 * @returns the problem at a key path below the token's; the message names only the host of a URL
 */
export async function findRateProblem(source: RateSource): Promise<PeerProblem | undefined> {
  try {
    await askSource(source, systemClock)();
    return undefined;
  } catch (error) {
    if (!(error instanceof RateProblem)) throw error;
    const { key, message, cause } = error;
    const url = source.kind === "chainlink" ? source.rpcUrl : source.url;
    const where = cause === undefined ? "" : ` (${unreachableText(url, cause)})`;
    return { path: ["rate_source", source.kind, key], message: `gives no rate: ${message}${where}` };
  }
}

function askSource(source: RateSource, clock: Clock): AskRate {
  // An answer that takes longer than a value may be old is useless.
  const timeoutMs = Math.min(MAX_QUESTION_MS, source.maxAgeMs);
  return source.kind === "chainlink"
    ? createChainlinkRate({ ...source, timeoutMs, clock })
    : createHttpRate({ ...source, timeoutMs, clock });
}

/** Returns only text written for the operator, because a library's error may quote the URL. */
function problemOf(error: unknown): string {
  return error instanceof RateProblem ? error.message : "it could not be queried";
}
