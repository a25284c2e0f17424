import type { Logger } from "pino";
import type { Config, PeerFindings, StorePlace, WebhookEndpoint } from "./config/config.ts";
import type { ConfigTable } from "./config/config-table.ts";
import type { EntryKeys } from "./config/entry-keys.ts";
import type { TokenMethod } from "./config/token-method.ts";
import type { EventHub } from "./core/events.ts";
import type { GaugeSample, Instrument } from "./core/instruments.ts";
import type { BindAddress } from "./core/network-address.ts";
import type { NetworkPayer } from "./core/network-payer.ts";
import type { OwnPaths } from "./core/route.ts";
import type { Telemetry } from "./core/telemetry.ts";
import type { Dispatcher } from "./delivery/dispatcher.ts";
import type { RunnerStreams } from "./delivery/runner-service.ts";
import type { RunnerReport } from "./delivery/subscription.ts";
import type { HttpServer } from "./http/server.ts";
import type { OperatorAddition } from "./operator/methods.ts";
import type { StoreInspection } from "./store/contract/inspection.ts";
import type { CalledJob } from "./store/contract/work-queue.ts";
import type { StoreOptions, StoreWait } from "./store/create-store.ts";
import type { Store, StoreTotals } from "./store/store.ts";
import type { X402Sources } from "./x402/gateway-options.ts";
import type { Holding } from "./x402/holding.ts";
import type { ListedJob } from "./x402/jobs/listing.ts";
import type { Method } from "./x402/methods/method.ts";
import type { Methods } from "./x402/methods/methods.ts";
import type { X402Part } from "./x402/part.ts";
import type { RateReport } from "./x402/prices/token-rates.ts";
import type { Services } from "./x402/services.ts";
import type { CeilingScheme } from "./x402/wire/offer.ts";
import type { PurchaseNames, WireVersion } from "./x402/wire/version.ts";

/** An ability that the core does without: one folder of `parts/`, and one line of `parts.ts`. */
export interface Part {
  /** Makes the telemetry of the process before anything else, because the store reports to it from its start. */
  telemetry?(logger: Logger): Promise<OfferedTelemetry>;
  /** Keys of the configuration that the part reads. A table finds their values in a configuration. */
  readonly table?: ConfigTable | readonly ConfigTable[];
  /** Keys that the part reads from each entry of a list of the core. */
  readonly entries?: EntryKeys | readonly EntryKeys[];
  /** Paths that the part answers, at which no job can be sold. */
  readonly paths?: OwnPaths;
  /** Ability that keys of the core need and that needs no table. A build without the ability refuses these keys. */
  readonly ability?: string;
  /** Opens stores of more kinds than the core. */
  readonly store?: StoreKind;
  /**
   * Loads the part's modules while the store opens. Returns undefined if the configuration does not use the part. The
   * builder starts nothing yet.
   */
  load?(config: Config, loadMethods: LoadMethods): Builder | undefined | Promise<Builder | undefined>;
  /** A transfer method, as the configuration sees it. */
  readonly tokenMethod?: TokenMethod;
  /** Loads {@link tokenMethod} as payments use it, if the configuration sells jobs. */
  method?(): Promise<Method>;
  /** Loads the payer for the networks of {@link tokenMethod}, for `jobgate pay`. */
  payer?(): Promise<NetworkPayer>;
  /** Value of jobs' `charge` for {@link ceilingScheme}. */
  readonly charge?: string;
  /**
   * Loads a scheme that charges an amount up to the signed ceiling, if the configuration sells jobs. At most one part of a
   * build has such a scheme.
   */
  ceilingScheme?(): Promise<CeilingScheme>;
  /** Loads an x402 version other than the current one, if the configuration sells jobs. */
  version?(): Promise<WireVersion>;
  /**
   * Loads the reader of purchase names in payloads, if the configuration sells jobs. At most one part of a build has such a
   * reader.
   */
  purchaseNames?(): Promise<PurchaseNames>;
  /** Makes the part's additions to the gateway that sells jobs, under any configuration. */
  x402?(services: Services): Promise<X402Part>;
  /**
   * Checks that the part's peers match the configuration, for `jobgate check --online`.
   * @param inspect opens the store for reading, even while another process serves it; rejects if there is no store
   */
  checkPeers?(
    config: Config,
    loadMethods: LoadMethods,
    inspect: () => Promise<StoreInspection>,
  ): Promise<PeerFindings>;
  /**
   * Describes, for `jobgate check --listing`, where the jobs for sale would be listed, and reasons why they would not
   * be listed.
   */
  checkListing?(config: Config): Promise<readonly string[]>;
}

/** Loads the transfer methods of this build, and its versions of x402. */
export type LoadMethods = () => Promise<Methods>;

export type Builder = (host: Host) => Running;

/** Networks on which a part can pay ({@link Part.payer}). */
export interface PayingPart extends Required<Pick<TokenMethod, "networks" | "presets">> {
  readonly payer: NetworkPayer;
}

/** Telemetry of the process. */
export interface OfferedTelemetry {
  readonly telemetry: Telemetry;
  /** Loads the server of the telemetry while the store opens. */
  load(): Promise<Builder>;
  /** Sends the remaining telemetry after everything else has stopped. Never rejects. */
  stop(): Promise<void>;
}

/** A kind of store, selected by the scheme of `store.url`. */
export interface StoreKind {
  /** Schemes without `:`. */
  readonly schemes: readonly string[];
  /** @throws Error when the store cannot be opened, or does not promise durability */
  open(options: StoreOptions & StorePlace & StoreWait): Promise<Store>;
  /** Opens a store for reading, even while another process serves it. @throws Error when there is no store */
  inspect(place: StorePlace): Promise<StoreInspection>;
}

/** Services of the core that a part can use. */
export interface Host {
  /** The configuration in use, reloads included. */
  readonly config: Config;
  readonly store: Store;
  readonly events: EventHub;
  /** Hands out JobCalls. */
  readonly dispatcher: Dispatcher;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
  /** Returns the parts' additions to a seam. */
  additions<Seam extends keyof Running>(seam: Seam): readonly NonNullable<Running[Seam]>[];
  /** Every address that this process listens on. */
  readonly listeners: readonly { readonly name: string; readonly address: string }[];
  /** True once every listener has opened. */
  readonly isOpen: boolean;
  /** The paid jobs for sale. */
  jobs(): Promise<readonly ListedJob[]>;
  /** Every open stream of a runner, longest connected first. */
  runners(): readonly RunnerReport[];
  /** The current rate of every accepted token. */
  rates(): readonly RateReport[];
  /** Returns the server at an address, which listeners configured with one address share. */
  serverAt(address: BindAddress): HttpServer;
}

/** A part that was built, and what it adds to the core. */
export interface Running {
  /** Starts the background work of the part, before any listener opens. */
  start?(): Promise<void>;
  /** Opens the listener of the part, once the listeners before it are open. */
  open?(): Promise<void>;
  /** Loads what a reload needs. The reload might still be refused, so it changes nothing. */
  prepare?(config: Config): Promise<void>;
  /** Writes a reload's changes to the store, as the last step that can refuse the reload. Changes nothing if it rejects. */
  write?(config: Config): Promise<void>;
  /** Applies a reload that nothing can refuse any more. */
  reload?(config: Config): void | Promise<void>;
  /** Stops accepting requests, before the core stops; resolves once the requests in progress are answered. */
  close?(): Promise<void>;
  /** Ends the background work, after runners had time to finish their jobs. */
  stop?(): Promise<void>;
  readonly listener?: Listener;
  /** Prices, rates and facilitators for the gateway that sells jobs. */
  readonly sources?: X402Sources;
  /** The work of the part in the gateway that sells jobs, if that work needs the host. */
  readonly x402?: X402Part;
  /** Methods of the runners' gRPC service. */
  readonly runnerStreams?: RunnerStreams;
  /** Reads the gauges that several parts have. */
  readonly gauges?: () => readonly GaugeSample[];
  /** Gauges and counters of this part only. */
  readonly ownGauges?: readonly OwnGauge[];
  readonly operator?: OperatorAddition;
  /** Refuses authentic webhooks of an endpoint. @throws GatewayError */
  readonly admitsWebhook?: (endpoint: WebhookEndpoint) => void;
  /** Refuses a JobCall of the operator, who needs no endpoint and no payment. @throws GatewayError */
  readonly admitsUnpaid?: (job: CalledJob) => void;
  readonly holdings?: Holdings;
}

/** Paying accounts of a part, with their last read balances. */
export interface Holdings {
  /** Payments that the accounts make, in the plural: `settlements`. */
  readonly pays: string;
  /** Returns the balances without waiting for a chain. */
  read(): readonly Holding[];
}

/** A gauge of one part, or a counter that the part keeps. */
export interface OwnGauge extends Instrument {
  readonly name: string;
  readonly isCounter?: true;
  /**
   * Reads the values at a scrape.
   * @param totals totals of the store; undefined while the store does not answer
   * @param now Unix milliseconds
   */
  read(totals: StoreTotals | undefined, now: number): readonly GaugeValue[] | Promise<readonly GaugeValue[]>;
}

/** One value, and its labels. */
export type GaugeValue = readonly [value: number, labels: Readonly<Record<string, string>>];

/** An address that the process listens on. */
export interface Listener {
  readonly name: string;
  /** Table of the configuration that has its `bind_address`. */
  readonly table: string;
  readonly bindAddress: BindAddress;
  /**
   * True if the listener opens before the listeners that sell jobs and take webhooks. Other listeners of parts open after
   * them.
   */
  readonly isFirst?: true;
  /** `address` is `host:port` or `unix:path`, once started. */
  readonly service: { readonly address: string };
}
