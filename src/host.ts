import type { Logger } from "pino";
import { afterReload } from "./config/checked-file.ts";
import type { Config } from "./config/config.ts";
import { maxResultBytesOf } from "./config/jobs.ts";
import type { BackgroundService } from "./core/background-service.ts";
import { systemClock } from "./core/clock.ts";
import type { EventHub } from "./core/events.ts";
import type { BindAddress } from "./core/network-address.ts";
import { joined } from "./core/objects.ts";
import { NO_TELEMETRY, type Telemetry } from "./core/telemetry.ts";
import { DeliveryTelemetry } from "./delivery/delivery-telemetry.ts";
import { decodeJobCall } from "./delivery/job-call-codec.ts";
import { RunnerServer } from "./delivery/runner-server.ts";
import { HttpServer } from "./http/server.ts";
import { listenProblem } from "./node/listen-error.ts";
import type { Builder, Host, Listener, OfferedTelemetry, Running } from "./part.ts";
import type { CalledJob } from "./store/contract/work-queue.ts";
import type { Store } from "./store/store.ts";
import { WebhookGateway } from "./webhooks/gateway.ts";
import type { X402Gateway } from "./x402/gateway.ts";
import type { X402Periods, X402Sources } from "./x402/gateway-options.ts";
import type { Methods } from "./x402/methods/methods.ts";
import type { PreparedShop } from "./x402/open-shop.ts";
import type { LoadX402Parts } from "./x402/part.ts";

/** The core and the parts beside it. This class refers to no part by name. */
export class Gateway {
  readonly #telemetry: OfferedTelemetry | undefined;
  readonly #store: Store;
  readonly #parts: readonly Running[];
  readonly #x402: X402Gateway | undefined;
  readonly #webhooks: WebhookGateway | undefined;
  readonly #runner: RunnerServer;
  /** The configuration in use, reloads included. */
  #config: Config;
  #isOpen = false;

  /** Builds the core and its parts, and starts nothing. */
  constructor(base: {
    readonly config: Config;
    readonly logger: Logger;
    readonly telemetry: OfferedTelemetry | undefined;
    readonly events: EventHub;
    readonly store: Store;
    readonly periods: Partial<X402Periods> | undefined;
    readonly parts: readonly Builder[];
    /** Loaded if the configuration sells jobs. */
    readonly x402: { readonly X402Gateway: typeof X402Gateway } | undefined;
    /** Transfer methods of this build, loaded if the configuration sells jobs. */
    readonly methods: Methods | undefined;
    /** Makes the parts' additions to the gateway that sells jobs. */
    readonly x402Parts: LoadX402Parts;
  }) {
    const { config, logger, events, store } = base;
    const telemetry = base.telemetry?.telemetry ?? NO_TELEMETRY;
    const servers = new SharedServers(logger, telemetry);
    this.#config = config;
    this.#telemetry = base.telemetry;
    this.#store = store;
    const parts: Running[] = [];
    const additions: Host["additions"] = (seam) =>
      parts.map((part) => part[seam]).filter((added) => added !== undefined);
    this.#runner = new RunnerServer({
      config: config.runner,
      workQueue: store,
      status: () => store.status(),
      observer: new DeliveryTelemetry({ telemetry, decode: decodeJobCall, clock: systemClock }),
      maxResultBytes: (job) => this.#maxResultBytes(job),
      streams: () => joined("method", additions("runnerStreams")),
      check:
        config.x402 && ((callId) => this.#x402?.charges.findShortfall(callId) ?? Promise.resolve(undefined)),
      logger,
    });

    const host: Host = {
      get config() {
        return current();
      },
      get listeners() {
        return listeners();
      },
      get isOpen() {
        return isOpen();
      },
      additions,
      jobs: async () => (await this.#x402?.jobs()) ?? [],
      runners: () => this.#runner.runners(),
      rates: () => this.#x402?.rates() ?? [],
      store,
      events,
      dispatcher: this.#runner.dispatcher,
      logger,
      telemetry,
      serverAt: (address) => servers.at(address),
    };
    const current = () => this.#config;
    const listeners = () => this.listeners;
    const isOpen = () => this.#isOpen;
    for (const build of base.parts) parts.push(build(host));
    this.#parts = parts;

    const sources: X402Sources = joined("source", additions("sources"));
    this.#x402 =
      config.x402 &&
      base.x402 &&
      new base.x402.X402Gateway(
        {
          config: config.x402,
          server: servers.at(config.x402.bindAddress),
          store,
          events,
          ...sources,
          methods: base.methods,
          parts: async (services) => [...(await base.x402Parts(services)), ...additions("x402")],
          logger,
          telemetry,
        },
        base.periods,
      );
    this.#webhooks =
      config.webhooks &&
      new WebhookGateway({
        config: config.webhooks,
        server: servers.at(config.webhooks.bindAddress),
        serviceId: config.serviceId,
        intake: store,
        admit: (endpoint) => {
          for (const admits of additions("admitsWebhook")) admits(endpoint);
        },
        logger,
      });
  }

  /** Starts the parts, then opens every listener. */
  async start(): Promise<void> {
    try {
      for (const part of this.#parts) await part.start?.();
      for (const [listener, start] of this.#listeners()) await open(listener, start);
      this.#isOpen = true;
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /** Every listener with the address that it is bound to: `host:port`, or `unix:path`. */
  get listeners(): { readonly name: string; readonly address: string }[] {
    return this.#listeners().map(([{ name, service }]) => ({ name, address: service.address }));
  }

  /**
   * Replaces prices, rates, policies, endpoints, push targets and secrets. Addresses, store and runner settings stay as
   * they were. Everything stays as it was if the promise rejects.
   */
  async reload(next: Config): Promise<void> {
    const config = afterReload(this.#config, next);
    const prepared = await this.#prepare(config);
    if (prepared) await this.#x402?.open(prepared);
    if (config.webhooks) this.#webhooks?.reload(config.webhooks);
    this.#runner.reload(config.runner);
    this.#config = config;
    for (const part of this.#parts) await part.reload?.(config);
  }

  /** Runs all steps of a reload that can fail. The last step writes to the store. @returns the shop to open */
  async #prepare(config: Config): Promise<PreparedShop | undefined> {
    try {
      const prepared = config.x402 && (await this.#x402?.prepare(config.x402));
      for (const part of this.#parts) await part.prepare?.(config);
      // The URL is applied before the writes, because the database may refuse the old URL's password.
      await this.#store.useUrl?.(config.store.url);
      for (const part of this.#parts) await part.write?.(config);
      return prepared;
    } catch (error) {
      void this.#store.useUrl?.(this.#config.store.url);
      throw error;
    }
  }

  /** Stops without losing work: takes no new requests, answers the requests in progress, and gives runners time to finish. */
  async stop(): Promise<void> {
    await Promise.all(this.#parts.map(async (part) => part.close?.()));
    await Promise.all([this.#x402?.stop(), this.#webhooks?.stop()]);
    await this.#runner.stop();
    for (const part of [...this.#parts].reverse()) await part.stop?.();
    await this.#store.close();
    await this.#telemetry?.stop();
  }

  #maxResultBytes({ origin, serviceId, jobId }: CalledJob): number {
    const jobs = origin !== "webhook" ? (this.#config.x402?.jobs ?? []) : [];
    const job = jobs.find((one) => one.serviceId === serviceId && BigInt(one.jobIndex) === jobId);
    return maxResultBytesOf(job ?? {});
  }

  /** The listeners and how they start, in their order. */
  #listeners() {
    const { runner, x402, webhooks } = this.#config;
    const core = [
      ["x402", this.#x402, x402],
      ["webhooks", this.#webhooks, webhooks],
    ] as const;
    const ofParts = this.#parts.flatMap(({ listener, open }) =>
      listener && open ? [[listener, open] as const] : [],
    );
    return [
      toListener("runner", this.#runner, runner),
      ...ofParts.filter(([{ isFirst }]) => isFirst),
      ...core.flatMap(([name, service, config]) =>
        service && config ? [toListener(name, service, config)] : [],
      ),
      ...ofParts.filter(([{ isFirst }]) => !isFirst),
    ];
  }
}

/** A service of the core as a listener, and how it starts. */
function toListener(
  name: string,
  service: BackgroundService & Listener["service"],
  { bindAddress }: { readonly bindAddress: BindAddress },
) {
  const listener: Listener = { name, table: name, bindAddress, service };
  return [listener, () => service.start()] as const;
}

/** @throws Error that names the table of an address that is in use */
async function open({ table, bindAddress }: Listener, start: () => Promise<void>): Promise<void> {
  await start().catch((cause: unknown) => {
    throw new Error(listenProblem(cause, `${table}.bind_address`, bindAddress), { cause });
  });
}

/** One HTTP server for each address, so that listeners configured with one address share its socket. */
class SharedServers {
  readonly #logger: Logger;
  readonly #telemetry: Telemetry;
  readonly #servers = new Map<string, HttpServer>();

  constructor(logger: Logger, telemetry: Telemetry) {
    this.#logger = logger;
    this.#telemetry = telemetry;
  }

  at(address: BindAddress): HttpServer {
    // Port 0 means any free port, so each listener with port 0 has a server of its own.
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
