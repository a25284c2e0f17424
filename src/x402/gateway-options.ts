import type { Logger } from "pino";
import type { X402Config } from "../config/config.ts";
import type { BackgroundService } from "../core/background-service.ts";
import type { Clock } from "../core/clock.ts";
import type { EventHub } from "../core/events.ts";
import type { Telemetry } from "../core/telemetry.ts";
import type { HttpServer } from "../http/server.ts";
import type { Store } from "../store/store.ts";
import type { Facilitator } from "./facilitators/facilitator.ts";
import type { OpenFacilitators } from "./facilitators/facilitators.ts";
import type { Methods } from "./methods/methods.ts";
import type { PriceSource } from "./prices/price-source.ts";
import type { RateWatcher } from "./prices/token-rates.ts";

/** Periods of the gateway unless it is built with others. Milliseconds. */
export const DEFAULT_PERIODS = {
  /** Longest time of one RPC call. */
  rpcTimeoutMs: 5_000,
  /** Time between the two looks at the chain that it takes to say that a payment was not paid. */
  secondLookAfterMs: 500,
  /** Time after which a settlement without the facilitator's answer is first looked for on the chain. */
  pendingLookMs: 1_000,
  /** Time after which the next facilitator is asked to verify too. */
  verifyPatienceMs: 3_000,
  /** Time between two rounds of the reconciler. */
  roundMs: 1_000,
  /** Time between the reconciler's first two checks of a payment. */
  firstDelayMs: 1_000,
  /** Time between two looks at unresolved and decided payments. */
  slowRoundMs: 60_000,
  /** Time between two looks at a call that a client waits for, in case no event reports a change. */
  callPollMs: 1_000,
};

export type X402Periods = Readonly<
  typeof DEFAULT_PERIODS & {
    /** Longest time that a request waits for the chain to confirm a settlement. Default: the facilitator's time-out. */
    confirmationTimeoutMs: number;
  }
>;

/** A facilitator in this process. */
type LocalFacilitator = Facilitator & BackgroundService;

/** Prices, rates and facilitators beyond the configuration. */
export interface X402Sources {
  /** Returns the prices of the jobs whose own price names a source, and of the jobs without one if `price_source` does. */
  readonly prices?: PriceSource | undefined;
  /** Watches live rates. Without it, tokens can have fixed rates only. The gateway starts and stops it. */
  readonly rates?: RateWatcher;
  /** Settles where a part has claimed an entry of the configuration's facilitators. The gateway starts and stops it. */
  readonly localFacilitator?: LocalFacilitator | undefined;
  /** Opens the facilitators where the configuration names several. */
  readonly openFacilitators?: OpenFacilitators;
}

export interface X402GatewayOptions extends X402Sources {
  /** The `[x402]` table with `[job_pricing]`, as a configuration loader returns it. */
  readonly config: X402Config;
  /** Keeps payments, offers and the JobCalls that were paid for. The embedder opens and closes it. */
  readonly store: Store;
  readonly logger: Logger;
  /** Transfer methods that payments can be made by. Default: EIP-3009 alone. */
  readonly methods?: Methods | undefined;
  /** Returns Unix milliseconds. Default: the system's clock. */
  readonly clock?: Clock;
  /** Server to share a socket with. Default: a server of the gateway's own at `config.bindAddress`. */
  readonly server?: HttpServer;
  /**
   * Hub that reports changes in the store. Without it, clients that wait for a result or read its events get them up
   * to a second later.
   */
  readonly events?: EventHub;
  /** Receives counts and durations. Default: none are kept. */
  readonly telemetry?: Telemetry;
}
