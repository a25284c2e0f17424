import { setMaxListeners } from "node:events";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { BackgroundService } from "../core/background-service.ts";
import type { RouteTable } from "../http/routes.ts";
import type { HttpServer } from "../http/server.ts";
import { collectMetrics } from "../telemetry/collectors.ts";
import type { OperatorTokens } from "./access.ts";
import { apiRoutes } from "./api-routes.ts";
import { healthRoutes, metricsRoutes } from "./monitoring-routes.ts";
import { pageRoutes } from "./page-routes.ts";
import { OperatorApi } from "./service.ts";
import type { OperatorSources } from "./sources.ts";

/** The operator listener: API, metrics, health and page. */
export class OperatorServer implements BackgroundService {
  readonly #server: HttpServer;
  readonly #api: OperatorApi;
  readonly #routes: RouteTable;
  readonly #stopping = new AbortController();

  constructor(options: {
    readonly server: HttpServer;
    /** Bearer tokens of the API and the metrics. Health never needs one. */
    readonly tokens: OperatorTokens;
    readonly sources: OperatorSources;
    /** Adds the process's counters and histograms to the metrics. */
    readonly telemetry?: { addTo(registry: Registry): void };
    readonly logger: Logger;
  }) {
    const { server, tokens, sources, telemetry, logger } = options;
    const { signal } = this.#stopping;
    // Every open call adds a listener, and Node warns above ten.
    setMaxListeners(0, signal);
    const registry = collectMetrics(sources);
    telemetry?.addTo(registry);
    const health = healthRoutes(
      () => sources.store.status(),
      () => signal.aborted,
    );
    const metrics = metricsRoutes(registry, tokens);
    this.#api = new OperatorApi(sources, logger);
    const api = apiRoutes({ service: this.#api, tokens, stopping: signal, logger });
    const page = pageRoutes();
    this.#server = server;
    this.#routes = (path) => health(path) ?? metrics(path) ?? api(path) ?? page(path);
  }

  /** `host:port` or `unix:path`, once started. */
  get address(): string {
    return this.#server.address;
  }

  start(): Promise<void> {
    // The page and monitoring poll. Traces of their requests would hide the traces of jobs.
    return this.#server.mount(this.#routes, { listener: "operator", startsTraces: false });
  }

  /** Ends every stream with UNAVAILABLE, the first part of {@link stop}. Other requests are still answered. */
  endStreams(): void {
    this.#stopping.abort(new ConnectError("jobgate is stopping.", Code.Unavailable));
  }

  stop(): Promise<void> {
    this.endStreams();
    this.#api.stop();
    return this.#server.unmount(this.#routes);
  }
}
