import type { Logger } from "pino";
import type { AcceptedToken, RateSource } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import { createAsk } from "./ask-rate.ts";
import { createLiveRate, type LiveRate } from "./live-rate.ts";

/** What one native unit (10^18 wei) is worth in a token. */
export interface TokenRate {
  /** Decimal string > 0: whole tokens for one native unit. */
  readonly ratePerNativeUnit: string;
  /** From when the value is, Unix milliseconds; only of a live rate. */
  readonly asOf?: number;
}

/** A token's rate as the operator sees it. */
export interface RateReport {
  readonly network: string;
  readonly asset: string;
  readonly symbol: string;
  readonly source: RateSource["kind"];
  /** The last good value, usable or not; absent when there never was one. */
  readonly rate?: TokenRate;
  /** Whether offers in this token can be made now. */
  readonly usable: boolean;
  /** Why the rate cannot be refreshed, or cannot be used; names no URL. */
  readonly problem?: string;
}

/** The rates of all tokens, fixed or live. Live ones are asked for in the background, never while a client waits. */
export interface RateBoard {
  /** Undefined: there is no rate now that may be used. */
  rateOf(token: AcceptedToken): TokenRate | undefined;
  /** Every token's rate, live or not, for the operator. */
  report(): RateReport[];
  /**
   * Takes over the tokens of a new configuration; sources that did not change keep their values.
   * Resolves once each new live source was asked once, or after a few seconds. Never rejects.
   */
  watch(tokens: readonly AcceptedToken[]): Promise<void>;
  /** Asks no more. */
  stop(): void;
}

export interface RateBoardOptions {
  readonly clock: Clock;
  readonly logger: Logger;
}

export function createRateBoard({ clock, logger }: RateBoardOptions): RateBoard {
  let tokens: readonly AcceptedToken[] = [];
  const live = new Map<string, LiveRate>();

  const symbolsAt = (key: string) =>
    tokens.flatMap(({ rate, network, symbol }) => (keyOf(rate) === key ? [`${network} ${symbol}`] : []));

  function open(source: LiveRateSource): Promise<void> {
    const key = keyOf(source);
    if (live.has(key)) return Promise.resolve();
    const { kind, maxAgeMs, refreshMs } = source;
    const rate = createLiveRate({
      ask: createAsk(source, clock),
      maxAgeMs,
      refreshMs,
      clock,
      onFailing: (problem) =>
        logger.warn({ source: kind, tokens: symbolsAt(key), problem }, "a live rate cannot be refreshed"),
      onRecovered: () =>
        logger.info({ source: kind, tokens: symbolsAt(key) }, "a live rate is refreshed again"),
    });
    live.set(key, rate);
    return rate.start();
  }

  function report({ network, asset, symbol, rate: source }: AcceptedToken): RateReport {
    const token = { network, asset, symbol, source: source.kind };
    if (source.kind === "fixed") return { ...token, rate: fixedRate(source), usable: true };
    const known = live.get(keyOf(source));
    const problem = known?.problem();
    const latest = known?.latest();
    return {
      ...token,
      usable: known?.usable() !== undefined,
      ...(latest === undefined ? {} : { rate: latest }),
      ...(problem === undefined ? {} : { problem }),
    };
  }

  return {
    rateOf: ({ rate }) => (rate.kind === "fixed" ? fixedRate(rate) : live.get(keyOf(rate))?.usable()),

    report: () => tokens.map(report),

    async watch(next) {
      tokens = next;
      await Promise.all(next.flatMap(({ rate }) => (rate.kind === "fixed" ? [] : [open(rate)])));
      // Only now: until here offers were made from the sources of before.
      const wanted = new Set(tokens.map(({ rate }) => keyOf(rate)));
      for (const [key, rate] of live) {
        if (wanted.has(key)) continue;
        rate.stop();
        live.delete(key);
      }
    },

    stop() {
      for (const rate of live.values()) rate.stop();
      live.clear();
    },
  };
}

type LiveRateSource = Exclude<RateSource, { kind: "fixed" }>;

/** Two tokens with the same source share what it answers. */
function keyOf(source: RateSource): string {
  return JSON.stringify(source);
}

function fixedRate({ ratePerNativeUnit }: { readonly ratePerNativeUnit: string }): TokenRate {
  return { ratePerNativeUnit };
}
