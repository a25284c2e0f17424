import { setMaxListeners } from "node:events";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Logger } from "pino";
import type { BackgroundService } from "../core/background-service.ts";
import { type Clock, systemClock } from "../core/clock.ts";
import type { EventHub } from "../core/events.ts";
import type { RouteTable } from "../http/routes.ts";
import type { HttpServer } from "../http/server.ts";
import type { Store } from "../store/store.ts";
import { createMetrics, type MetricsCollector } from "../telemetry/metrics.ts";
import { rateMetrics } from "../telemetry/rate-metrics.ts";
import { runnerMetrics } from "../telemetry/runner-metrics.ts";
import { storeMetrics } from "../telemetry/store-metrics.ts";
import { apiRoutes } from "./api-routes.ts";
import { healthRoutes } from "./health-routes.ts";
import { metricsRoutes } from "./metrics-routes.ts";
import { pageRoutes } from "./page-routes.ts";
import { createOperatorService, type OperatorServiceOptions } from "./service.ts";

export interface OperatorServerOptions {
  readonly server: HttpServer;
  /** Bearer token of the API and the metrics; undefined: none is asked for. Health stays open. */
  readonly token: string | undefined;
  readonly store: Store;
  readonly events: EventHub;
  readonly listeners: OperatorServiceOptions["listeners"];
  /** Default: there are none. */
  readonly rates?: OperatorServiceOptions["rates"];
  readonly runners: OperatorServiceOptions["runners"];
  readonly configuration: OperatorServiceOptions["configuration"];
  /** Adds to the metrics what other parts tell of. Default: they tell of nothing. */
  readonly collect?: MetricsCollector;
  readonly logger: Logger;
  readonly clock?: Clock;
}

/** What the operator, and whatever watches jobgate, asks. */
export class OperatorServer implements BackgroundService {
  readonly #server: HttpServer;
  readonly #routes: RouteTable;
  readonly #stopping = new AbortController();

  constructor(options: OperatorServerOptions) {
    const {
      server,
      token,
      store,
      events,
      listeners,
      rates = () => [],
      runners,
      configuration,
      collect = () => undefined,
      logger,
      clock = systemClock,
    } = options;
    // Every call in hand listens for it.
    setMaxListeners(0, this.#stopping.signal);
    const service = createOperatorService({
      store,
      events,
      listeners,
      rates,
      runners,
      configuration,
      clock,
    });
    const health = healthRoutes({
      status: () => store.status(),
      isStopping: () => this.#stopping.signal.aborted,
    });
    const metrics = metricsRoutes(
      createMetrics([storeMetrics(store, clock), runnerMetrics(runners), rateMetrics(rates, clock), collect]),
      token,
    );
    const page = pageRoutes();
    const api = apiRoutes({ service, token, stopping: this.#stopping.signal, logger });
    this.#server = server;
    this.#routes = (path) => health(path) ?? metrics(path) ?? api(path) ?? page(path);
  }

  /** `host:port` or `unix:path`, once started. */
  get address(): string {
    return this.#server.address;
  }

  start(): Promise<void> {
    return this.#server.mount(this.#routes, "operator");
  }

  /** The first part of {@link stop}: ends every stream with UNAVAILABLE. Everything else is still answered. */
  endStreams(): void {
    this.#stopping.abort(new ConnectError("jobgate is stopping.", Code.Unavailable));
  }

  stop(): Promise<void> {
    this.endStreams();
    return this.#server.unmount(this.#routes);
  }
}
