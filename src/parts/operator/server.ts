import { setMaxListeners } from "node:events";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Logger } from "pino";
import type { BackgroundService } from "../../core/background-service.ts";
import type { RouteTable } from "../../http/routes.ts";
import type { HttpServer } from "../../http/server.ts";
import { joinMethods } from "../../operator/methods.ts";
import { guardedTable, type OperatorTokens } from "./access.ts";
import { apiRoutes } from "./api-routes.ts";
import { healthRoutes } from "./health-routes.ts";
import { OperatorApi } from "./service.ts";
import type { OperatorSources } from "./sources.ts";

/** Makes one table of several; the first that has a path answers. */
function firstOf(tables: readonly RouteTable[]): RouteTable {
  return (path) => {
    for (const table of tables) {
      const handlers = table(path);
      if (handlers !== undefined) return handlers;
    }
    return undefined;
  };
}

/** The operator listener: the API, health, and what parts add. */
export class OperatorServer implements BackgroundService {
  readonly #server: HttpServer;
  readonly #tokens: OperatorTokens;
  readonly #sources: OperatorSources;
  readonly #logger: Logger;
  readonly #api: OperatorApi;
  readonly #stopping = new AbortController();
  #routes: RouteTable = () => undefined;

  constructor(options: {
    readonly server: HttpServer;
    /** Bearer tokens of the API and of what parts add. Health never needs one. */
    readonly tokens: OperatorTokens;
    readonly sources: OperatorSources;
    readonly logger: Logger;
  }) {
    const { server, tokens, sources, logger } = options;
    // Every open call adds a listener, and Node warns above ten.
    setMaxListeners(0, this.#stopping.signal);
    this.#server = server;
    this.#tokens = tokens;
    this.#sources = sources;
    this.#logger = logger;
    this.#api = new OperatorApi(sources, logger);
  }

  /** `host:port` or `unix:path`, once started. */
  get address(): string {
    return this.#server.address;
  }

  start(): Promise<void> {
    this.#routes = this.#makeRoutes();
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

  #makeRoutes(): RouteTable {
    const [tokens, sources, logger] = [this.#tokens, this.#sources, this.#logger];
    const { signal } = this.#stopping;
    const additions = sources.additions();
    const service = joinMethods([this.#api, ...additions.flatMap(({ methods = [] }) => methods)]);
    return firstOf([
      healthRoutes(
        () => sources.store.status(),
        () => signal.aborted,
      ),
      ...additions.flatMap(({ routes = [] }) => routes).map((table) => guardedTable(tokens, table)),
      apiRoutes({ service, tokens, stopping: signal, logger }),
      ...additions.flatMap(({ files = [] }) => files),
    ]);
  }
}
