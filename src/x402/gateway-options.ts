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

/** Default periods of the gateway, in milliseconds. */
export const DEFAULT_PERIODS = {
  /** Longest time of one RPC call. */
  rpcTimeoutMs: 5_000,
  /** Minimum time between the two observations of the chain that are required to declare a payment unpaid. */
  secondLookAfterMs: 500,
  /** Time after which the chain is first searched for a settlement that the facilitator has not answered yet. */
  pendingLookMs: 1_000,
  /** Time after which verification is also requested from the next facilitator. */
  verifyPatienceMs: 3_000,
  /** Time between two rounds of the reconciler. */
  roundMs: 1_000,
  /** Time between the reconciler's first two checks of a payment. */
  firstDelayMs: 1_000,
  /** Time between two checks of unresolved and decided payments. */
  slowRoundMs: 60_000,
  /** Time between two reads of a call that a client waits for, in case no event reports a change. */
  callPollMs: 1_000,
};

export type X402Periods = Readonly<
  typeof DEFAULT_PERIODS & {
    /** Longest time that a request waits for the chain to confirm a settlement. Default: the facilitator's timeout. */
    confirmationTimeoutMs: number;
  }
>;

/** A facilitator in this process. */
type LocalFacilitator = Facilitator & BackgroundService;

/** Prices, rates and facilitators beyond the configuration. */
export interface X402Sources {
  /** Returns the prices of jobs whose price names a source, and of jobs without a price if `price_source` names one. */
  readonly prices?: PriceSource | undefined;
  /** Watches live rates. If undefined, tokens can only have fixed rates. The gateway starts and stops the watcher. */
  readonly rates?: RateWatcher;
  /** Settles for a part that has claimed an entry of the configuration's facilitators. The gateway starts and stops it. */
  readonly localFacilitator?: LocalFacilitator | undefined;
  /** Opens the facilitators if the configuration names several. */
  readonly openFacilitators?: OpenFacilitators;
}

export interface X402GatewayOptions extends X402Sources {
  /** The `[x402]` table with `[job_pricing]`, as a configuration loader returns it. */
  readonly config: X402Config;
  /** Keeps payments, offers and the JobCalls that were paid for. The embedder opens and closes it. */
  readonly store: Store;
  readonly logger: Logger;
  /** Transfer methods of payments. Default: only EIP-3009. */
  readonly methods?: Methods | undefined;
  /** Returns Unix milliseconds. Default: the system's clock. */
  readonly clock?: Clock;
  /** Server to share a socket with. Default: a new server at `config.bindAddress`. */
  readonly server?: HttpServer;
  /**
   * Hub that reports changes in the store. If undefined, clients that wait for a result or read its events get them up to a
   * second later.
   */
  readonly events?: EventHub;
  /** Receives counts and durations. Default: they are discarded. */
  readonly telemetry?: Telemetry;
}
