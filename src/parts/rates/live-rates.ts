import type { Logger } from "pino";
import type { LiveRateSource } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import type { LiveToken, RateWatcher } from "../../x402/prices/token-rates.ts";
import type { RateSource } from "./config.ts";
import { LiveRate } from "./live-rate.ts";
import type { LiveValue } from "./rate.ts";

/** Rates of all live sources, which are queried in the background, never while a client waits. */
export class LiveRates implements RateWatcher {
  readonly #clock: Clock;
  readonly #logger: Logger;
  #tokens: readonly LiveToken[] = [];
  /** Two tokens with the same source share its answers. */
  readonly #rates = new Map<string, LiveRate>();

  constructor(parts: { readonly clock: Clock; readonly logger: Logger }) {
    this.#clock = parts.clock;
    this.#logger = parts.logger;
  }

  rateOf(source: LiveRateSource): LiveValue | undefined {
    return this.#rates.get(keyOf(source))?.usable();
  }

  report(source: LiveRateSource) {
    const live = this.#rates.get(keyOf(source));
    return { usable: live?.usable() !== undefined, rate: live?.latest(), problem: live?.problem() };
  }

  async watch(tokens: readonly LiveToken[]): Promise<void> {
    this.#tokens = tokens;
    await Promise.all(tokens.map(({ rate }) => this.#open(rate)));
    // Removed last, because offers were made from the old sources until now.
    const wanted = new Set(this.#tokens.map(({ rate }) => keyOf(rate)));
    for (const [key, rate] of this.#rates) {
      if (wanted.has(key)) continue;
      rate.stop();
      this.#rates.delete(key);
    }
  }

  stop(): void {
    for (const rate of this.#rates.values()) rate.stop();
    this.#rates.clear();
  }

  async #open(source: LiveRateSource): Promise<void> {
    const key = keyOf(source);
    if (this.#rates.has(key)) return;
    const fields = () => ({ source: source.kind, tokens: this.#tokensOf(key) });
    const rate = new LiveRate({
      // The configuration has sources of this part alone.
      source: source as RateSource,
      clock: this.#clock,
      onFailing: (problem) => this.#logger.warn({ ...fields(), problem }, "a live rate cannot be refreshed"),
      onRecovered: () => this.#logger.info(fields(), "a live rate is refreshed again"),
    });
    this.#rates.set(key, rate);
    await rate.start();
  }

  #tokensOf(key: string): string[] {
    const tokens = this.#tokens.filter(({ rate }) => keyOf(rate) === key);
    return tokens.map(({ network, symbol }) => `${network} ${symbol}`);
  }
}

/** Keys by source, because every offer needs the rates of all tokens. */
const keys = new WeakMap<LiveRateSource, string>();

/** Returns the same key for two equal sources. */
function keyOf(source: LiveRateSource): string {
  let key = keys.get(source);
  if (key === undefined) {
    key = JSON.stringify(source);
    keys.set(source, key);
  }
  return key;
}
