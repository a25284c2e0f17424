import type { AcceptedToken, LiveRateSource } from "../../config/config.ts";
import { defined } from "../../core/objects.ts";

/** Value of one native unit (10^18 wei) in a token. */
export interface TokenRate {
  /** Decimal string > 0: whole tokens for one native unit. */
  readonly ratePerNativeUnit: string;
  /** Time of the value, Unix milliseconds; only a live rate has one. */
  readonly asOf?: number;
}

/** A token's rate as the operator sees it. */
export interface RateReport {
  readonly network: string;
  readonly asset: string;
  readonly symbol: string;
  /** `fixed`, a live source, or `none` if the token pays only prices in its own currency. */
  readonly source: string;
  /** Last good value, usable or not; undefined if there never was a good value. */
  readonly rate?: TokenRate;
  /** Offers in this token can be made now. */
  readonly usable: boolean;
  /** Reason why the rate cannot be refreshed or used; holds no URL. */
  readonly problem?: string;
}

type Rate = NonNullable<AcceptedToken["rate"]>;
type FixedRate = Extract<Rate, { readonly kind: "fixed" }>;
/** A token whose rate is live. */
export type LiveToken = AcceptedToken & { readonly rate: LiveRateSource };

/** Watches sources of live rates. */
export interface RateWatcher {
  /** Returns the rate of a source; undefined while it has no usable rate. */
  rateOf(source: LiveRateSource): TokenRate | undefined;
  report(source: LiveRateSource): Pick<RateReport, "usable"> & {
    readonly rate: TokenRate | undefined;
    readonly problem: string | undefined;
  };
  /**
   * Watches only the sources of these tokens from now on. Sources that were already watched keep their values. Resolves once
   * each new source was queried once, or after a few seconds. Never rejects.
   */
  watch(tokens: readonly LiveToken[]): Promise<void>;
  stop(): void;
}

/** Current rates of the accepted tokens: fixed rates from the configuration, live rates from a watcher. */
export class TokenRates {
  readonly #live: RateWatcher | undefined;
  #accepted: readonly AcceptedToken[] = [];

  constructor(live: RateWatcher | undefined) {
    this.#live = live;
  }

  /** Returns the rate of a token; undefined while it has no usable rate. */
  rateOf({ rate }: AcceptedToken): TokenRate | undefined {
    if (rate === undefined) return undefined;
    return isFixed(rate) ? fixedRate(rate) : this.#live?.rateOf(rate);
  }

  /** Returns every accepted token with its rate, for the operator. A token that is accepted by two methods is listed once. */
  report(): RateReport[] {
    const byRate = this.#accepted.map(
      (token) => [JSON.stringify([token.network, token.asset, token.rate]), token] as const,
    );
    return [...new Map(byRate).values()].map((token) => this.#report(token));
  }

  /**
   * Applies the tokens of a new configuration, once their live rates are watched.
   * @throws Error for a live rate that no watcher watches
   */
  async watch(tokens: readonly AcceptedToken[]): Promise<void> {
    const live = tokens.filter(isLive);
    if (live[0] !== undefined && this.#live === undefined) {
      const { network, symbol, rate } = live[0];
      throw new Error(
        `The rate of ${network} ${symbol} comes from a live source (${rate.kind}), but nothing watches live rates here: expected rate_per_native_unit, or rates among the options`,
      );
    }
    this.#accepted = tokens;
    await this.#live?.watch(live);
  }

  stop(): void {
    this.#live?.stop();
  }

  #report({ network, asset, symbol, rate: source }: AcceptedToken): RateReport {
    if (source === undefined) return { network, asset, symbol, source: "none", usable: true };
    const token = { network, asset, symbol, source: source.kind };
    if (isFixed(source)) return { ...token, rate: fixedRate(source), usable: true };
    return defined({ ...token, usable: false, ...this.#live?.report(source) });
  }
}

function isLive(token: AcceptedToken): token is LiveToken {
  return token.rate !== undefined && !isFixed(token.rate);
}

function isFixed(rate: Rate): rate is FixedRate {
  return rate.kind === "fixed";
}

function fixedRate({ ratePerNativeUnit }: FixedRate): TokenRate {
  return { ratePerNativeUnit };
}
