import type { Logger } from "pino";
import type { Config } from "./config/config.ts";
import { afterReload } from "./config/reload.ts";
import type { BackgroundService } from "./core/background-service.ts";
import { systemClock } from "./core/clock.ts";
import { createEventHub } from "./core/events.ts";
import type { BindAddress } from "./core/network-address.ts";
import { RunnerServer } from "./delivery/runner-server.ts";
import { HttpServer } from "./http/server.ts";
import { openStore as openConfiguredStore } from "./open-store.ts";
import { OperatorServer } from "./operator/server.ts";
import { knownServices } from "./pricing/known-services.ts";
import { createPricingEngine } from "./pricing/pricing-engine.ts";
import { PricingServer } from "./pricing/pricing-server.ts";
import { observeStore } from "./store/observed-store.ts";
import { traceStore } from "./store/traced-store.ts";
import { measureBatches } from "./telemetry/batch-metrics.ts";
import { countEvents } from "./telemetry/event-metrics.ts";
import { observeDelivery } from "./telemetry/observed-delivery.ts";
import { startTelemetry } from "./telemetry/start-telemetry.ts";
import type { Telemetry } from "./telemetry/telemetry.ts";
import { WebhookGateway } from "./webhooks/gateway.ts";
import { X402Gateway } from "./x402/gateway.ts";

export interface GatewayOptions {
  readonly config: Config;
  readonly logger: Logger;
  readonly openStore?: typeof openConfiguredStore;
}

export interface Listener {
  readonly name: string;
  /** `host:port` as really bound, or `unix:path`. */
  readonly address: string;
}

export interface Gateway {
  readonly listeners: readonly Listener[];
  /** Takes over prices, rates, policies and endpoints. Addresses, store and runner settings stay as they were. */
  reload(config: Config): Promise<void>;
  /** Drains: no new requests, those in hand answered, runners given time to finish, nothing lost. */
  stop(): Promise<void>;
}

/** Builds every part of jobgate, in the order of a request, and starts them against it: who receives starts first. */
export async function startGateway({
  config,
  logger,
  openStore = openConfiguredStore,
}: GatewayOptions): Promise<Gateway> {
  const events = createEventHub();
  const telemetry = await startTelemetry(logger);
  const { tracing } = telemetry;
  const opened = await openStore(config.store, logger, measureBatches(telemetry));
  const observed = observeStore(opened, events);
  const store = tracing === undefined ? observed : traceStore(observed, tracing);
  const stopCounting = countEvents(events, telemetry);
  const sharedServer = sharedServers(logger, telemetry);
  const status = () => store.status();

  let configuration = config;
  let known = knownServices(config);

  const engine =
    config.pricingEngine &&
    createPricingEngine({
      config: config.pricingEngine,
      isKnownService: (serviceId) => known.has(serviceId),
      logger,
      telemetry,
    });
  const x402 =
    config.x402 &&
    new X402Gateway({
      config: config.x402,
      store,
      events,
      logger,
      telemetry,
      server: sharedServer(config.x402.bindAddress),
      redeemsQuotes: engine !== undefined,
      ...(config.x402.priceSource === "engine" && engine?.prices ? { prices: engine.prices } : {}),
    });
  const pricing =
    config.pricingEngine &&
    engine &&
    new PricingServer({
      config: config.pricingEngine,
      client: engine.client,
      ...(x402 ? { payWith: (quote) => x402.quotePayment(quote) } : {}),
      logger,
    });
  const webhooks =
    config.webhooks &&
    new WebhookGateway({
      config: config.webhooks,
      serviceId: config.serviceId,
      intake: store,
      logger,
      server: sharedServer(config.webhooks.bindAddress),
    });
  const runner = new RunnerServer({
    config: config.runner,
    workQueue: store,
    status,
    observer: observeDelivery(telemetry, systemClock),
    logger,
  });
  const operator: OperatorServer = new OperatorServer({
    server: sharedServer(config.operator.bindAddress),
    token: config.operator.token,
    store,
    events,
    listeners: () => listeners(),
    rates: () => x402?.rates() ?? [],
    runners: () => runner.runners(),
    configuration: () => configuration,
    collect: (registry) => telemetry.addTo(registry),
    logger,
  });

  const services = new Map<string, BackgroundService & { address: string }>([
    ["runner", runner],
    ["operator", operator],
    ...(x402 ? [["x402", x402] as const] : []),
    ...(webhooks ? [["webhooks", webhooks] as const] : []),
    ...(pricing ? [["pricing", pricing] as const] : []),
  ]);

  const listeners = (): Listener[] => [...services].map(([name, { address }]) => ({ name, address }));

  const stop = async () => {
    // A socket is free of requests only once its streams have ended, and gateways may share the operator's.
    operator.endStreams();
    await Promise.all([x402?.stop(), webhooks?.stop(), pricing?.stop()]);
    await engine?.stop();
    await runner.stop();
    await operator.stop();
    await store.close();
    stopCounting();
    await telemetry.stop();
  };

  try {
    for (const [name, service] of services) {
      await service.start().catch((cause: unknown) => {
        throw new Error(
          `The ${name} listener could not start: ${cause instanceof Error ? cause.message : cause}`,
          {
            cause,
          },
        );
      });
    }
  } catch (error) {
    await stop();
    throw error;
  }

  return {
    listeners: listeners(),
    async reload(next) {
      const reloaded = afterReload(configuration, next);
      if (reloaded.x402) await x402?.reload(reloaded.x402);
      if (reloaded.webhooks) webhooks?.reload(reloaded.webhooks);
      configuration = reloaded;
      known = knownServices(configuration);
    },
    stop,
  };
}

/** One HTTP server for each address, so that gateways configured with one address share its socket. */
function sharedServers(logger: Logger, telemetry: Telemetry): (address: BindAddress) => HttpServer {
  const servers = new Map<string, HttpServer>();
  return (address) => {
    // Port 0 asks for any free port: each listener that asks gets one of its own.
    if (address.kind === "tcp" && address.port === 0) return new HttpServer({ address, logger, telemetry });
    const key = JSON.stringify(address);
    const server = servers.get(key) ?? new HttpServer({ address, logger, telemetry });
    servers.set(key, server);
    return server;
  };
}
