import { pino } from "pino";
import type { X402Config } from "../../../src/config/config.ts";
import { refusalOf } from "../../../src/core/errors.ts";
import { EventHub } from "../../../src/core/events.ts";
import { NO_TELEMETRY } from "../../../src/core/telemetry.ts";
import { encodeJobCall } from "../../../src/delivery/job-call-codec.ts";
import type { HttpRequest } from "../../../src/http/request.ts";
import { errorResponse, type HttpResponse } from "../../../src/http/response.ts";
import { handlerOf, type RouteTable } from "../../../src/http/routes.ts";
import type { HttpServer } from "../../../src/http/server.ts";
import type { Host } from "../../../src/part.ts";
import { Apis } from "../../../src/parts/apis/apis.ts";
import { CallbackGuard, callbackHeader } from "../../../src/parts/callbacks/callback-guard.ts";
import { buyersTable } from "../../../src/parts/callbacks/config.ts";
import { RestrictedJobs } from "../../../src/parts/callers/restricted-jobs.ts";
import { Channels } from "../../../src/parts/channels/channels.ts";
import { CHANNELS } from "../../../src/parts/channels/method.ts";
import { SeveralFacilitators } from "../../../src/parts/failover/several-facilitators.ts";
import { limitsOf } from "../../../src/parts/flow/config.ts";
import { LocalFacilitator } from "../../../src/parts/local-facilitator/local-facilitator.ts";
import { Mcp } from "../../../src/parts/mcp/mcp.ts";
import { UPTO } from "../../../src/parts/metered/scheme.ts";
import { Mpp } from "../../../src/parts/mpp/mpp.ts";
import { IDENTIFIED_SALES, IDENTIFIERS } from "../../../src/parts/payment-identifier/identifiers.ts";
import { PERMIT2 } from "../../../src/parts/permit2/method.ts";
import { pushRunners } from "../../../src/parts/push/push-target.ts";
import { Refunds } from "../../../src/parts/refunds/refunds.ts";
import { PricesOfRequests } from "../../../src/parts/request-prices/request-prices.ts";
import { SOLANA } from "../../../src/parts/solana/method.ts";
import { VERSION_1 } from "../../../src/parts/version-1/version-1.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { emitEvents } from "../../../src/store-events.ts";
import { WebhookGateway } from "../../../src/webhooks/gateway.ts";
import { X402Gateway } from "../../../src/x402/gateway.ts";
import { Methods } from "../../../src/x402/methods/methods.ts";
import type { X402Part } from "../../../src/x402/part.ts";
import { Versions } from "../../../src/x402/wire/version.ts";
import { callbackKeys, RUNNER_CONFIG, startDelivery } from "./delivery.ts";
import type { AskQuote } from "./engine.ts";
import type { Shop } from "./part.ts";
import type { SimulatedPostgres } from "./postgres.ts";
import { PUSH_TARGET } from "./push-endpoint.ts";
import type { SharedDatabase } from "./shared-store.ts";
import type { Process, Simulation } from "./simulation.ts";
import { closeConnectionsOf } from "./store-link.ts";

const RESTART_MS = 200;

/** A client's request as it arrives. */
export interface ClientRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly query?: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The parts of a gateway that runs. */
export interface Running {
  readonly process: Process;
  readonly store: Store;
  readonly routes: RouteTable;
  readonly askQuote: AskQuote | undefined;
  /** Applies a configuration. */
  reload(x402: X402Config): Promise<void>;
}

/** A gateway, which is killed and starts again. */
export class Replica {
  readonly #simulation: Simulation;
  #shop: Shop;
  readonly #path: string;
  readonly #database: SharedDatabase | undefined;
  readonly #postgres: SimulatedPostgres | undefined;
  readonly #name: string;
  readonly #clock = { aheadMs: 0 };
  #starts = 0;
  #process: Process | undefined;
  #running: Running | undefined;

  constructor(
    simulation: Simulation,
    parts: {
      readonly name: string;
      readonly shop: Shop;
      readonly path: string;
      /** Absent: the file is its own. */
      readonly database: SharedDatabase | undefined;
      /** Absent: the store is SQLite. */
      readonly postgres: SimulatedPostgres | undefined;
    },
  ) {
    this.#simulation = simulation;
    this.#name = parts.name;
    this.#database = parts.database;
    this.#postgres = parts.postgres;
    this.#shop = parts.shop;
    this.#path = parts.path;
  }

  /** Undefined while it is down. */
  get running(): Running | undefined {
    return this.#running;
  }

  start(): void {
    // Another death of it was quicker.
    if (this.#process !== undefined) return;
    const run = this.#simulation;
    const process: Process = { name: `${this.#name}.${++this.#starts}`, isAlive: true, clock: this.#clock };
    this.#process = process;
    run.at(0, process, () => {
      // A start that began amid faults may still end by one.
      const { isHealed } = run;
      this.#start(process).catch((error: unknown) => {
        if (!process.isAlive) return;
        if (isHealed) run.break(`the gateway does not start: ${String(error)}`);
        // As whoever runs it does.
        else this.restart();
      });
    });
  }

  /** Ends it at once. What is on its way from it may still arrive. */
  kill(): void {
    const process = this.#process;
    if (process === undefined) return;
    this.#simulation.say(`${process.name} is killed`);
    process.isAlive = false;
    closeConnectionsOf(process);
    this.#postgres?.left(process);
    this.#process = undefined;
    this.#running = undefined;
  }

  /** Stops all that it does for some time, as a loaded machine or a suspended one does. */
  stall(ms: number): void {
    const process = this.#process;
    if (process === undefined) return;
    this.#simulation.say(`${process.name} stalls for ${Math.round(ms)} ms`);
    process.stalledUntil = this.#simulation.now + ms;
  }

  /** Sets its wall clock. Restarts do not change that. */
  setClock(aheadMs: number): void {
    this.#simulation.say(`the clock of ${this.#name} is set to ${Math.round(aheadMs)} ms ahead`);
    this.#clock.aheadMs = Math.round(aheadMs);
  }

  /** Changes its configuration, which it applies at once, and has at each start from now on. */
  configure(change: (x402: X402Config) => X402Config): void {
    const run = this.#simulation;
    const x402 = change(this.#shop.x402);
    this.#shop = { ...this.#shop, x402 };
    const running = this.#running;
    if (running !== undefined) run.at(0, running.process, () => void running.reload(x402));
  }

  /** Kills it, and starts it again soon. */
  restart(): void {
    const run = this.#simulation;
    this.kill();
    run.at(run.delay("restart", 1, RESTART_MS), run.world, () => this.start());
  }

  /**
   * Hands a request to the routes. Nothing is called when the gateway dies before.
   * @param onWritten gets the answer when it leaves the gateway
   */
  request(
    request: ClientRequest,
    onAnswer: (answer: HttpResponse) => void,
    onWritten: (answer: HttpResponse) => void = () => undefined,
  ): void {
    const running = this.#running;
    if (running === undefined) throw new Error("nobody listens");
    const run = this.#simulation;
    run.at(run.delay("to gateway", 0.2, 30), running.process, () => {
      void answer(running.routes, request).then(
        (response) => {
          // A connection is cut where another request for the same answer was the last that got it.
          if (response === undefined) return;
          const { onSent } = response;
          const send = () => {
            onWritten(response);
            run.at(run.delay("from gateway", 0.2, 30), run.world, () => onAnswer(response));
          };
          if (onSent === undefined) send();
          else
            run.at(run.delay("gateway writes", 0.1, 20), running.process, () => {
              if (run.fault("a buyer leaves before the answer is written", 0.1)) return;
              send();
              void onSent();
            });
        },
        (error: unknown) => run.break(`a request ended with ${String((error as Error).stack)}`),
      );
    });
  }

  async #start(process: Process): Promise<void> {
    const logger = pino({ level: "silent" });
    const events = new EventHub();
    const options = { maxPending: 1_000, encodeJobCall, logger, onCommitted: emitEvents(events) };
    const opened =
      (await this.#postgres?.open(process, options)) ??
      (await openSqliteStore({ ...options, path: this.#path }));
    const store = this.#database?.share(opened, process) ?? opened;
    const tables: RouteTable[] = [];
    const server: Pick<HttpServer, "mount" | "unmount" | "address"> = {
      address: "gateway:1",
      mount: async (table) => {
        tables.push(table);
      },
      unmount: async () => undefined,
    };
    const { x402: config, webhooks, engine } = this.#shop;
    const methods = new Methods(
      [PERMIT2, SOLANA, SENT_BY_OTHERS],
      new Versions([VERSION_1]),
      IDENTIFIERS,
      UPTO,
    );
    const shared = { store, events, logger, server: server as HttpServer };
    const localFacilitator = config.facilitators.some(({ kind }) => kind === "in_process")
      ? new LocalFacilitator({ config, methods, store, logger })
      : undefined;
    const pricing = engine?.connect(logger, store);
    const sold = pricing && { prices: pricing.prices };
    const channels =
      this.#shop.channels &&
      new Channels({
        ...{ config: this.#shop.channels, x402: config, store, logger, telemetry: NO_TELEMETRY },
        own: () => undefined,
      });
    const keys = await callbackKeys();
    let apis: Apis | undefined;
    const gateway: X402Gateway = new X402Gateway({
      ...{ config, methods, ...shared, ...sold, localFacilitator },
      openFacilitators: (options) => new SeveralFacilitators(options),
      parts: async (services) => [
        new RestrictedJobs(services),
        ...[
          new Mpp(services),
          new Mcp(services),
          CALLBACKS,
          IDENTIFIED_SALES,
          new PricesOfRequests(services),
        ],
        ...(apis ? [apis] : []),
        ...(channels ? [{ open: () => channels.addition }] : []),
        ...(pricing ? [pricing.sales] : []),
      ],
    });
    const parts = { store, gateway, keys, events, logger };
    const dispatcher = await startDelivery(this.#simulation, this.#shop, parts);
    const limits = limitsOf({ x402: config, ...(webhooks && { webhooks }) });
    if (limits.length > 0) dispatcher.limit(limits);
    apis = new Apis({
      ...{ dispatcher, config: { runner: RUNNER_CONFIG }, logger, telemetry: NO_TELEMETRY },
    } as Host);
    await gateway.start();
    apis.use({ x402: config });
    // After the APIs, as in the program: their jobs are reserved.
    if (this.#shop.pushes)
      pushRunners({ dispatcher, config: { runner: RUNNER_CONFIG }, logger }).use([PUSH_TARGET]);
    await channels?.start();
    if (webhooks)
      await new WebhookGateway({ config: webhooks, serviceId: 1n, intake: store, ...shared }).start();
    const { refunds } = this.#shop;
    if (refunds !== undefined) {
      const { acceptedTokens: tokens } = config;
      await new Refunds({ config: refunds, methods, tokens, store, logger, telemetry: NO_TELEMETRY }).start();
    }
    // The configuration was changed during the start.
    if (this.#shop.x402 !== config) await gateway.reload(this.#shop.x402);
    this.#simulation.say(`${process.name} runs`);
    const routes: RouteTable = (path) => tables.map((table) => table(path)).find(Boolean);
    const reload = async (x402: X402Config) => {
      await gateway.reload(x402);
      this.#simulation.say(`${process.name} has another configuration`);
    };
    this.#running = { process, store, routes, askQuote: pricing?.askQuote, reload };
  }
}

/** Channels, without the scheme by which a gateway's own accounts send for them. */
const { ownScheme: _, ...SENT_BY_OTHERS } = CHANNELS;

/** Lets buyers give a URL where they are called back. */
const CALLBACKS: X402Part = {
  open(x402) {
    const rules = buyersTable.in(x402);
    return callbackHeader(rules && new CallbackGuard(rules));
  },
};

/** Number of requests so far: each has an ID of its own, as at a server. */
let requests = 0;

/** @returns undefined for an answer that is forgotten while it is sent */
async function answer(routes: RouteTable, request: ClientRequest): Promise<HttpResponse | undefined> {
  const { method, path, query = "", headers, body } = request;
  const handlers = routes(path);
  if (handlers === undefined) throw new Error(`there is no ${path}`);
  const seen: Pick<HttpRequest, keyof HttpRequest> = {
    ...{ id: `r-${++requests}`, method, path, query, headers, remoteAddress: "10.0.0.1" },
    closed: new AbortController().signal,
    headerValues: (name) => (headers[name] === undefined ? [] : [headers[name]]),
    readBody: () => Promise.resolve(Buffer.from(body)),
    unreadBody: () => undefined,
  };
  try {
    const found = await handlerOf(handlers, seen as HttpRequest)(seen as HttpRequest);
    if (typeof found === "function") throw new Error("the answer is no whole one");
    if ("stream" in found) {
      const chunks: Uint8Array[] = [];
      const { status, headers = {}, stream, onSent } = found;
      try {
        for await (const chunk of stream) chunks.push(Buffer.from(chunk));
      } catch (error) {
        if (onSent === undefined) throw error;
        return undefined;
      }
      return { status, headers, body: Buffer.concat(chunks), ...(onSent && { onSent }) };
    }
    if (found.refusal === "internal_error") throw new Error(`${path} failed unexpectedly`);
    return found;
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal.code === "internal_error") throw error;
    return errorResponse(refusal);
  }
}
