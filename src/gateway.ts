import type { Logger } from "pino";
import type { Config } from "./config/config.ts";
import { afterReload } from "./config/reload.ts";
import type { BackgroundService } from "./core/background-service.ts";
import { systemClock } from "./core/clock.ts";
import { createEventHub, type EventHub } from "./core/events.ts";
import type { BindAddress } from "./core/network-address.ts";
import { decodeJobCall } from "./delivery/job-call-codec.ts";
import { RunnerServer } from "./delivery/runner-server.ts";
import { HttpServer } from "./http/server.ts";
import { openStore as openConfiguredStore } from "./open-store.ts";
import { OperatorServer } from "./operator/server.ts";
import { knownServices, PricingEngine } from "./pricing/pricing-engine.ts";
import { PricingServer } from "./pricing/pricing-server.ts";
import type { Store } from "./store/store.ts";
import { emitEvents } from "./store-events.ts";
import { countEvents, DeliveryTelemetry, measureBatches } from "./telemetry/observers.ts";
import { ProcessTelemetry } from "./telemetry/process-telemetry.ts";
import { startTracing } from "./telemetry/start-tracing.ts";
import { WebhookGateway } from "./webhooks/gateway.ts";
import { type SettlementPeriods, X402Gateway } from "./x402/gateway.ts";

/** A part that listens. */
type Service = BackgroundService & { readonly address: string };

/** Starts everything that the configuration asks for. If a part fails to start, the others are stopped again. */
export async function startGateway(options: {
  readonly config: Config;
  readonly logger: Logger;
  /** Default: opens the store that the configuration names. */
  readonly openStore?: typeof openConfiguredStore;
  /** Ends the wait for a store that is not reachable yet. */
  readonly signal?: AbortSignal;
  readonly settlementPeriods?: Partial<SettlementPeriods>;
}): Promise<Gateway> {
  const { config, logger, openStore = openConfiguredStore, signal, settlementPeriods } = options;
  const telemetry = new ProcessTelemetry(await startTracing(logger));
  const events = createEventHub();
  const store = await openStore(config.store, logger, {
    onBatch: measureBatches(telemetry),
    onCommitted: emitEvents(events),
    tracing: telemetry.tracing,
    signal,
  });
  const gateway = new Gateway({ config, logger, telemetry, events, store, settlementPeriods });
  await gateway.start();
  return gateway;
}

/** All parts of jobgate. The constructor builds them in the order in which a request passes through them. */
export class Gateway {
  readonly #telemetry: ProcessTelemetry;
  readonly #store: Store;
  readonly #engine: PricingEngine | undefined;
  readonly #x402: X402Gateway | undefined;
  readonly #pricing: PricingServer | undefined;
  readonly #webhooks: WebhookGateway | undefined;
  readonly #runner: RunnerServer;
  readonly #operator: OperatorServer;
  readonly #stopCounting: () => void;
  /** The configuration in use, reloads included. */
  #config: Config;
  #knownServices: ReadonlySet<bigint>;

  constructor(base: {
    readonly config: Config;
    readonly logger: Logger;
    readonly telemetry: ProcessTelemetry;
    readonly events: EventHub;
    readonly store: Store;
    readonly settlementPeriods: Partial<SettlementPeriods> | undefined;
  }) {
    const { config, logger, telemetry, events, store } = base;
    const servers = new SharedServers(logger, telemetry);
    this.#config = config;
    this.#knownServices = knownServices(config);
    this.#telemetry = telemetry;
    this.#store = store;
    this.#stopCounting = countEvents(events, telemetry);

    this.#engine =
      config.pricingEngine &&
      new PricingEngine({
        config: config.pricingEngine,
        isKnownService: (serviceId) => this.#knownServices.has(serviceId),
        logger,
        telemetry,
      });
    const enginePrices = config.x402?.priceSource === "engine" ? this.#engine?.prices : undefined;
    const x402 =
      config.x402 &&
      new X402Gateway(
        {
          config: config.x402,
          server: servers.at(config.x402.bindAddress),
          store,
          events,
          ...(enginePrices ? { prices: enginePrices } : {}),
          redeemsQuotes: this.#engine !== undefined,
          logger,
          telemetry,
        },
        base.settlementPeriods,
      );
    this.#x402 = x402;
    this.#pricing =
      config.pricingEngine &&
      this.#engine &&
      new PricingServer({
        config: config.pricingEngine,
        client: this.#engine.client,
        ...(x402 ? { findPayment: (quote) => x402.quotePayment(quote) } : {}),
        logger,
      });
    this.#webhooks =
      config.webhooks &&
      new WebhookGateway({
        config: config.webhooks,
        server: servers.at(config.webhooks.bindAddress),
        serviceId: config.serviceId,
        intake: store,
        logger,
      });
    this.#runner = new RunnerServer({
      config: config.runner,
      workQueue: store,
      status: () => store.status(),
      observer: new DeliveryTelemetry(telemetry, decodeJobCall, systemClock),
      logger,
    });
    this.#operator = new OperatorServer({
      server: servers.at(config.operator.bindAddress),
      token: config.operator.token,
      sources: {
        store,
        events,
        listeners: () => this.listeners,
        rates: () => this.#x402?.rates() ?? [],
        runners: () => this.#runner.runners(),
        configuration: () => this.#config,
        clock: systemClock,
      },
      telemetry,
      logger,
    });
  }

  /** Starts the receiving parts before those that send to them. */
  async start(): Promise<void> {
    try {
      for (const [name, service] of this.#services()) await startListener(name, service);
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /** Every listener with the address that it is bound to: `host:port`, or `unix:path`. */
  get listeners(): { readonly name: string; readonly address: string }[] {
    return this.#services().map(([name, { address }]) => ({ name, address }));
  }

  /** Replaces prices, rates, policies and endpoints. Addresses, store and runner settings stay as they were. */
  async reload(next: Config): Promise<void> {
    const config = afterReload(this.#config, next);
    if (config.x402) await this.#x402?.reload(config.x402);
    if (config.webhooks) this.#webhooks?.reload(config.webhooks);
    this.#config = config;
    this.#knownServices = knownServices(config);
  }

  /** Drains: takes no new requests, answers those in progress, and gives runners time to finish. Loses nothing. */
  async stop(): Promise<void> {
    // A socket closes only once its streams have ended, and a gateway may share the operator's socket.
    this.#operator.endStreams();
    await Promise.all([this.#x402?.stop(), this.#webhooks?.stop(), this.#pricing?.stop()]);
    await this.#engine?.stop();
    await this.#runner.stop();
    await this.#operator.stop();
    await this.#store.close();
    this.#stopCounting();
    await this.#telemetry.stop();
  }

  #services(): [name: string, service: Service][] {
    const services: [name: string, service: Service | undefined][] = [
      ["runner", this.#runner],
      ["operator", this.#operator],
      ["x402", this.#x402],
      ["webhooks", this.#webhooks],
      ["pricing", this.#pricing],
    ];
    return services.filter((entry): entry is [string, Service] => entry[1] !== undefined);
  }
}

async function startListener(name: string, service: BackgroundService): Promise<void> {
  try {
    await service.start();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`The ${name} listener could not start: ${reason}`, { cause });
  }
}

/** One HTTP server for each address, so that listeners configured with one address share its socket. */
class SharedServers {
  readonly #logger: Logger;
  readonly #telemetry: ProcessTelemetry;
  readonly #servers = new Map<string, HttpServer>();

  constructor(logger: Logger, telemetry: ProcessTelemetry) {
    this.#logger = logger;
    this.#telemetry = telemetry;
  }

  at(address: BindAddress): HttpServer {
    // Port 0 means any free port, so each listener that asks for it gets one of its own.
    if (address.kind === "tcp" && address.port === 0) return this.#create(address);
    const key = JSON.stringify(address);
    const server = this.#servers.get(key) ?? this.#create(address);
    this.#servers.set(key, server);
    return server;
  }

  #create(address: BindAddress): HttpServer {
    return new HttpServer({ address, logger: this.#logger, telemetry: this.#telemetry });
  }
}
