import type { Logger } from "pino";
import type { AcceptedToken, RateSource } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import { defined } from "../../core/objects.ts";
import { LiveRate, type LiveRateSource } from "./live-rate.ts";
import type { TokenRate } from "./rate.ts";

/** A token's rate as the operator sees it. */
export interface RateReport {
  readonly network: string;
  readonly asset: string;
  readonly symbol: string;
  /** `none`: the token is paid for prices in its own currency alone. */
  readonly source: RateSource["kind"] | "none";
  /** Last good value, usable or not; absent when there never was one. */
  readonly rate?: TokenRate;
  /** Offers in this token can be made now. */
  readonly usable: boolean;
  /** Reason why the rate cannot be refreshed or used; holds no URL. */
  readonly problem?: string;
}

/** A token that prices in wei can be paid in. */
type RatedToken = AcceptedToken & { readonly rate: RateSource };

/** Rates of all accepted tokens. Live sources are asked in the background, never while a client waits. */
export class RateBoard {
  readonly #clock: Clock;
  readonly #logger: Logger;
  #accepted: readonly AcceptedToken[] = [];
  /** Accepted tokens that have a rate. */
  #tokens: readonly RatedToken[] = [];
  /** Live rates by source: two tokens with the same source share its answers. */
  readonly #live = new Map<string, LiveRate>();

  constructor(parts: { readonly clock: Clock; readonly logger: Logger }) {
    this.#clock = parts.clock;
    this.#logger = parts.logger;
  }

  /** Returns the rate of a token; undefined while it has no usable one. */
  rateOf({ rate }: AcceptedToken): TokenRate | undefined {
    if (rate === undefined) return undefined;
    return rate.kind === "fixed" ? fixedRate(rate) : this.#live.get(keyOf(rate))?.usable();
  }

  /** Returns every accepted token with its rate, for the operator. */
  report(): RateReport[] {
    return this.#accepted.map((token) => this.#report(token));
  }

  /**
   * Applies the tokens of a new configuration; unchanged sources keep their values. Resolves once each new live source
   * was asked once, or after a few seconds. Never rejects.
   */
  async watch(tokens: readonly AcceptedToken[]): Promise<void> {
    this.#accepted = tokens;
    this.#tokens = tokens.filter((token): token is RatedToken => token.rate !== undefined);
    await Promise.all(this.#tokens.flatMap(({ rate }) => (rate.kind === "fixed" ? [] : [this.#open(rate)])));
    // Removed last, because offers were made from the old sources until now.
    const wanted = new Set(this.#tokens.map(({ rate }) => keyOf(rate)));
    for (const [key, rate] of this.#live) {
      if (wanted.has(key)) continue;
      rate.stop();
      this.#live.delete(key);
    }
  }

  stop(): void {
    for (const rate of this.#live.values()) rate.stop();
    this.#live.clear();
  }

  async #open(source: LiveRateSource): Promise<void> {
    const key = keyOf(source);
    if (this.#live.has(key)) return;
    const fields = () => ({ source: source.kind, tokens: this.#tokensOf(key) });
    const rate = new LiveRate({
      source,
      clock: this.#clock,
      onFailing: (problem) => this.#logger.warn({ ...fields(), problem }, "a live rate cannot be refreshed"),
      onRecovered: () => this.#logger.info(fields(), "a live rate is refreshed again"),
    });
    this.#live.set(key, rate);
    await rate.start();
  }

  #tokensOf(key: string): string[] {
    const tokens = this.#tokens.filter(({ rate }) => keyOf(rate) === key);
    return tokens.map(({ network, symbol }) => `${network} ${symbol}`);
  }

  #report({ network, asset, symbol, rate: source }: AcceptedToken): RateReport {
    if (source === undefined) return { network, asset, symbol, source: "none", usable: true };
    const token = { network, asset, symbol, source: source.kind };
    if (source.kind === "fixed") return { ...token, rate: fixedRate(source), usable: true };
    const live = this.#live.get(keyOf(source));
    const usable = live?.usable() !== undefined;
    return defined({ ...token, usable, rate: live?.latest(), problem: live?.problem() });
  }
}

/** Keys by source, because every offer asks for the rates of all tokens. */
const keys = new WeakMap<RateSource, string>();

/** Returns the same key for two equal sources. */
function keyOf(source: RateSource): string {
  let key = keys.get(source);
  if (key === undefined) {
    key = JSON.stringify(source);
    keys.set(source, key);
  }
  return key;
}

function fixedRate({ ratePerNativeUnit }: { readonly ratePerNativeUnit: string }): TokenRate {
  return { ratePerNativeUnit };
}
