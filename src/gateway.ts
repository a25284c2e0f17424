import type { Logger } from "pino";
import type { Config } from "./config/config.ts";
import { knownServices } from "./config/job-policies.ts";
import { afterReload } from "./config/reload.ts";
import { CallbackKeys } from "./core/callback-keys.ts";
import { systemClock } from "./core/clock.ts";
import type { EventHub } from "./core/events.ts";
import type { BindAddress } from "./core/network-address.ts";
import { decodeJobCall } from "./delivery/job-call-codec.ts";
import { RunnerServer } from "./delivery/runner-server.ts";
import { HttpServer } from "./http/server.ts";
import { listenProblem } from "./node/listen-error.ts";
import { OperatorServer } from "./operator/server.ts";
import { CallbackSender } from "./parts/callbacks/callback-sender.ts";
import { PushRunners } from "./parts/push/push-runners.ts";
import type { PricingEngine } from "./pricing/pricing-engine.ts";
import type { PricingServer } from "./pricing/pricing-server.ts";
import { Pruner } from "./store/pruner.ts";
import type { Store } from "./store/store.ts";
import { countEvents, DeliveryTelemetry } from "./telemetry/observers.ts";
import type { ProcessTelemetry } from "./telemetry/process-telemetry.ts";
import { WebhookGateway } from "./webhooks/gateway.ts";
import type { FacilitatorService } from "./x402/facilitators/service.ts";
import type { X402Gateway } from "./x402/gateway.ts";
import type { X402Periods } from "./x402/periods.ts";
import type { Refunds } from "./x402/refunds/refunds.ts";
import type { LocalFacilitator } from "./x402/settler/local-facilitator.ts";

/** Classes of the parts that only some configurations have. */
interface OptionalParts {
  readonly x402: { readonly X402Gateway: typeof X402Gateway } | undefined;
  readonly settler: { readonly LocalFacilitator: typeof LocalFacilitator } | undefined;
  readonly refunds: { readonly Refunds: typeof Refunds } | undefined;
  readonly service: { readonly FacilitatorService: typeof FacilitatorService } | undefined;
  readonly engine: { readonly PricingEngine: typeof PricingEngine } | undefined;
  readonly pricing: { readonly PricingServer: typeof PricingServer } | undefined;
}

/** All parts of jobgate. The constructor builds them in the order in which a request passes through them. */
export class Gateway {
  readonly #telemetry: ProcessTelemetry;
  readonly #store: Store;
  readonly #engine: PricingEngine | undefined;
  readonly #x402: X402Gateway | undefined;
  readonly #refunds: Refunds | undefined;
  readonly #facilitatorService: FacilitatorService | undefined;
  readonly #pricing: PricingServer | undefined;
  readonly #webhooks: WebhookGateway | undefined;
  readonly #runner: RunnerServer;
  readonly #push: PushRunners;
  readonly #callbackKeys: CallbackKeys;
  readonly #callbacks: CallbackSender;
  readonly #operator: OperatorServer;
  readonly #pruner: Pruner;
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
    readonly periods: Partial<X402Periods> | undefined;
    /** Loaded for the parts that the configuration asks for. */
    readonly optional: OptionalParts;
  }) {
    const { config, logger, telemetry, events, store, optional } = base;
    const servers = new SharedServers(logger, telemetry);
    this.#config = config;
    this.#knownServices = knownServices(config);
    this.#telemetry = telemetry;
    this.#store = store;
    this.#stopCounting = countEvents(events, telemetry);

    this.#callbackKeys = new CallbackKeys((candidate) => store.keepSecret("callbacks", candidate));
    this.#engine =
      config.pricingEngine &&
      optional.engine &&
      new optional.engine.PricingEngine({
        config: config.pricingEngine,
        isKnownService: (serviceId) => this.#knownServices.has(serviceId),
        logger,
        telemetry,
      });
    const enginePrices = this.#engine?.prices;
    const localFacilitator =
      config.x402 &&
      optional.settler &&
      new optional.settler.LocalFacilitator({ config: config.x402, journal: store, logger, telemetry });
    const x402 =
      config.x402 &&
      optional.x402 &&
      new optional.x402.X402Gateway(
        {
          config: config.x402,
          server: servers.at(config.x402.bindAddress),
          store,
          events,
          ...(enginePrices && { enginePrices }),
          ...(enginePrices && config.x402.priceSource === "engine" && { prices: enginePrices }),
          redeemsQuotes: this.#engine !== undefined,
          localFacilitator,
          callbackKeys: this.#callbackKeys,
          logger,
          telemetry,
        },
        base.periods,
      );
    this.#x402 = x402;
    this.#refunds =
      config.x402?.refunds &&
      optional.refunds &&
      new optional.refunds.Refunds({
        config: config.x402.refunds,
        tokens: config.x402.acceptedTokens,
        store,
        logger,
        telemetry,
      });
    this.#facilitatorService =
      config.x402?.facilitatorService &&
      localFacilitator &&
      optional.service &&
      new optional.service.FacilitatorService({
        config: config.x402.facilitatorService,
        facilitator: localFacilitator,
        server: servers.at(config.x402.facilitatorService.bindAddress),
        logger,
        telemetry,
      });
    this.#pricing =
      config.pricingEngine &&
      this.#engine &&
      optional.pricing &&
      new optional.pricing.PricingServer({
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
      check: x402 && ((callId) => x402.charges.findShortfall(callId)),
      logger,
    });
    this.#push = new PushRunners({ dispatcher: this.#runner.dispatcher, config: config.runner, logger });
    this.#callbacks = new CallbackSender({
      store,
      keys: this.#callbackKeys,
      callUrl: (callId) => `${this.#config.x402?.publicUrl}/x402/calls/${callId}`,
      events,
      logger,
      telemetry,
    });
    this.#operator = new OperatorServer({
      server: servers.at(config.operator.bindAddress),
      tokens: () => this.#config.operator.tokens,
      sources: {
        store,
        events,
        listeners: () => this.listeners,
        rates: () => this.#x402?.rates() ?? [],
        settlers: () => [...(localFacilitator?.report() ?? []), ...(this.#refunds?.report() ?? [])],
        runners: () => this.#runner.runners(),
        jobs: async () => (await this.#x402?.jobs()) ?? [],
        callbacks: this.#callbacks,
        counters: telemetry.counters,
        configuration: () => this.#config,
        clock: systemClock,
      },
      telemetry,
      logger,
    });
    const { retention } = config.store;
    this.#pruner = new Pruner({ store, retention, clock: systemClock, logger });
  }

  /** Starts the receiving parts before those that send to them. */
  async start(): Promise<void> {
    try {
      await this.#push.use(this.#config.push);
      await this.#useCallbacks(this.#config);
      for (const { service, table, bindAddress } of this.#services()) {
        await service.start().catch((cause: unknown) => {
          throw new Error(listenProblem(cause, `${table}.bind_address`, bindAddress), { cause });
        });
      }
      await this.#pruner.start();
      await this.#refunds?.start();
      await this.#callbacks.start();
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /** Every listener with the address that it is bound to: `host:port`, or `unix:path`. */
  get listeners(): { readonly name: string; readonly address: string }[] {
    return this.#services().map(({ name, service: { address } }) => ({ name, address }));
  }

  /**
   * Replaces prices, rates, policies, endpoints, push targets and secrets. Addresses, store and runner settings stay as
   * they were.
   */
  async reload(next: Config): Promise<void> {
    const config = afterReload(this.#config, next);
    this.#store.useUrl?.(config.store.url);
    this.#runner.reload(config.runner);
    if (config.x402) {
      await this.#refunds?.use(config.x402.acceptedTokens);
      await this.#x402?.reload(config.x402);
    }
    if (config.x402?.facilitatorService) this.#facilitatorService?.reload(config.x402.facilitatorService);
    if (config.webhooks) this.#webhooks?.reload(config.webhooks);
    await this.#push.use(config.push);
    await this.#useCallbacks(config);
    this.#config = config;
    this.#knownServices = knownServices(config);
  }

  /** Drains: takes no new requests, answers those in progress, and gives runners time to finish. Loses nothing. */
  async stop(): Promise<void> {
    // A socket closes only once its streams have ended, and a gateway may share the operator's socket.
    this.#operator.endStreams();
    // The gateway stops the facilitator that it serves.
    await this.#facilitatorService?.stop();
    await Promise.all([this.#x402?.stop(), this.#webhooks?.stop(), this.#pricing?.stop()]);
    await this.#engine?.stop();
    await this.#refunds?.stop();
    await this.#callbacks.stop();
    await this.#runner.stop();
    await this.#push.stop();
    await this.#operator.stop();
    await this.#pruner.stop();
    await this.#store.close();
    this.#stopCounting();
    await this.#telemetry.stop();
  }

  async #useCallbacks({ callbackKeys, callbacks, x402 }: Config): Promise<void> {
    await this.#callbackKeys.use(callbackKeys);
    await this.#callbacks.use({ endpoints: callbacks, buyers: x402?.callbacks });
  }

  #services() {
    const { runner, operator, x402, webhooks, pricingEngine } = this.#config;
    const services = [
      ["runner", this.#runner, "runner", runner],
      ["operator", this.#operator, "operator", operator],
      ["x402", this.#x402, "x402", x402],
      ["facilitator", this.#facilitatorService, "x402.facilitator_service", x402?.facilitatorService],
      ["webhooks", this.#webhooks, "webhooks", webhooks],
      ["pricing", this.#pricing, "pricing_engine", pricingEngine],
    ] as const;
    return services.flatMap(([name, service, table, config]) =>
      service && config ? { name, service, table, bindAddress: config.bindAddress } : [],
    );
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
