import type { Logger } from "pino";
import type { Config, PeerProblem } from "./config/config.ts";
import type { CallbackKeys } from "./core/callback-keys.ts";
import type { EventHub } from "./core/events.ts";
import type { BindAddress } from "./core/network-address.ts";
import type { Dispatcher } from "./delivery/dispatcher.ts";
import type { HttpServer } from "./http/server.ts";
import type { OperatedSender } from "./operator/sources.ts";
import type { Store } from "./store/store.ts";
import type { MeasuredSettler } from "./telemetry/collectors.ts";
import type { Telemetry } from "./telemetry/telemetry.ts";
import type { LocalFacilitator } from "./x402/gateway-options.ts";
import type { PriceSource } from "./x402/prices/price-source.ts";
import type { QuotePayment, ReceivedQuote } from "./x402/prices/quotes.ts";
import type { RateWatcher } from "./x402/prices/token-rates.ts";

/** An ability that the core does without: one folder of `parts/`, and one line of `parts.ts`. */
export interface Part {
  /**
   * Loads what the part needs, while the store opens. Returns undefined if the configuration does not ask for the part. The
   * builder starts nothing yet.
   */
  load(
    config: Config,
  ): ((host: Host) => Running) | undefined | Promise<((host: Host) => Running) | undefined>;
  /** Checks that the part's peers are what the configuration says they are, for `jobgate check --online`. */
  findProblems?(config: Config): Promise<readonly PeerProblem[]>;
}

/** Services of the core that a part can use. */
export interface Host {
  /** The configuration in use, reloads included. */
  readonly config: Config;
  readonly store: Store;
  readonly events: EventHub;
  /** Hands out JobCalls. */
  readonly dispatcher: Dispatcher;
  /** The part that settles payments itself. */
  readonly localFacilitator: LocalFacilitator | undefined;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
  /** Returns the server at an address, which listeners configured with one address share. */
  serverAt(address: BindAddress): HttpServer;
  /** Returns the ways to pay a quote of the pricing engine here; undefined when it cannot be paid. */
  quotePayment(quote: ReceivedQuote): Promise<QuotePayment | undefined>;
}

/** A part that was built, and what it adds to the core. */
export interface Running {
  /** Starts the background work of the part, before any listener opens. */
  start?(): Promise<void>;
  /** Opens the listener of the part, once the listeners of the core are open. */
  open?(): Promise<void>;
  reload?(config: Config): void | Promise<void>;
  /** Stops accepting requests, before the core stops; resolves once the requests in progress are answered. */
  close?(): Promise<void>;
  /** Ends the background work, after runners had time to finish their jobs. */
  stop?(): Promise<void>;
  readonly listener?: Listener;
  /** Prices of the pricing engine. `prices` is undefined while its quotes cannot be checked. */
  readonly engine?: { readonly prices: PriceSource | undefined };
  readonly liveRates?: RateWatcher;
  readonly localFacilitator?: LocalFacilitator;
  readonly callbackKeys?: Pick<CallbackKeys, "published">;
  readonly callbacks?: OperatedSender;
  /** Balances and waiting transactions of accounts that send, by network. */
  readonly settlers?: () => readonly MeasuredSettler[];
}

/** An address that the process listens on. */
export interface Listener {
  readonly name: string;
  /** Table of the configuration that has its `bind_address`. */
  readonly table: string;
  readonly bindAddress: BindAddress;
  /** `address` is `host:port` or `unix:path`, once started. */
  readonly service: { readonly address: string };
}
