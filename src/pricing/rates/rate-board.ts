import type { Logger } from "pino";
import type { AcceptedToken, RateSource } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import { LiveRate, type LiveRateSource } from "./live-rate.ts";
import type { TokenRate } from "./rate.ts";

/** A token's rate as the operator sees it. */
export interface RateReport {
  readonly network: string;
  readonly asset: string;
  readonly symbol: string;
  readonly source: RateSource["kind"];
  /** Last good value, usable or not; absent when there never was one. */
  readonly rate?: TokenRate;
  /** Tells whether offers in this token can be made now. */
  readonly usable: boolean;
  /** Reason why the rate cannot be refreshed or used; holds no URL. */
  readonly problem?: string;
}

/** Rates of all tokens, fixed or live. Live sources are asked in the background, never while a client waits. */
export class RateBoard {
  readonly #clock: Clock;
  readonly #logger: Logger;
  #tokens: readonly AcceptedToken[] = [];
  /** Live rates by source: two tokens with the same source share its answers. */
  readonly #live = new Map<string, LiveRate>();

  constructor(parts: { readonly clock: Clock; readonly logger: Logger }) {
    this.#clock = parts.clock;
    this.#logger = parts.logger;
  }

  /** Returns the rate of a token; undefined while it has no usable one. */
  rateOf({ rate }: AcceptedToken): TokenRate | undefined {
    return rate.kind === "fixed" ? fixedRate(rate) : this.#live.get(keyOf(rate))?.usable();
  }

  /** Returns every token's rate, for the operator. */
  report(): RateReport[] {
    return this.#tokens.map((token) => this.#report(token));
  }

  /**
   * Applies the tokens of a new configuration; unchanged sources keep their values. Resolves once each new live source
   * was asked once, or after a few seconds. Never rejects.
   */
  async watch(tokens: readonly AcceptedToken[]): Promise<void> {
    this.#tokens = tokens;
    await Promise.all(tokens.flatMap(({ rate }) => (rate.kind === "fixed" ? [] : [this.#open(rate)])));
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
    const token = { network, asset, symbol, source: source.kind };
    if (source.kind === "fixed") return { ...token, rate: fixedRate(source), usable: true };
    const live = this.#live.get(keyOf(source));
    const problem = live?.problem();
    const latest = live?.latest();
    return {
      ...token,
      usable: live?.usable() !== undefined,
      ...(latest === undefined ? {} : { rate: latest }),
      ...(problem === undefined ? {} : { problem }),
    };
  }
}

function keyOf(source: RateSource): string {
  return JSON.stringify(source);
}

function fixedRate({ ratePerNativeUnit }: { readonly ratePerNativeUnit: string }): TokenRate {
  return { ratePerNativeUnit };
}
