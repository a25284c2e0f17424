import type { Logger } from "pino";
import type { BackgroundService } from "../../core/background-service.ts";
import { distinct } from "../../core/objects.ts";
import type { MethodHandlers, RouteTable } from "../../http/routes.ts";
import type { HttpServer } from "../../http/server.ts";
import { guardedRoute, type OperatorTokens } from "./access.ts";
import type { AnswerCall } from "./api-handler.ts";
import { healthRoutes } from "./health-routes.ts";
import { History } from "./history.ts";
import type { OperatorSources } from "./sources.ts";

/** Begins the path of each method of the API. */
const API_PREFIX = "/jobgate.v1.OperatorService/";

/** The operator listener: the API, health, and what parts add. */
export class OperatorServer implements BackgroundService {
  readonly #server: HttpServer;
  readonly #tokens: OperatorTokens;
  readonly #sources: OperatorSources;
  readonly #logger: Logger;
  readonly #history: History;
  readonly #stopping = new AbortController();
  #routes: RouteTable = () => undefined;
  #api: Promise<AnswerCall> | undefined;

  constructor(options: {
    readonly server: HttpServer;
    /** Bearer tokens of the API and of what parts add. Health never needs a token. */
    readonly tokens: OperatorTokens;
    readonly sources: OperatorSources;
    readonly logger: Logger;
  }) {
    const { server, tokens, sources, logger } = options;
    this.#server = server;
    this.#tokens = tokens;
    this.#sources = sources;
    this.#logger = logger;
    this.#history = new History(sources);
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
    this.#stopping.abort();
  }

  stop(): Promise<void> {
    this.endStreams();
    this.#history.stop();
    return this.#server.unmount(this.#routes);
  }

  #makeRoutes(): RouteTable {
    const { store, additions, isOpen } = this.#sources;
    const { signal } = this.#stopping;
    const guarded = (handlers: MethodHandlers) => guardedRoute(this.#tokens, handlers);
    const health = healthRoutes(
      () => store.status(),
      () => (signal.aborted ? "jobgate is shutting down" : isOpen() ? undefined : "jobgate is starting"),
    );
    const routes = distinct("route", [
      ...health,
      ...additions().flatMap((added) => [
        ...[...(added.routes ?? [])].map(([path, handlers]) => [path, guarded(handlers)] as const),
        ...(added.files ?? []),
      ]),
    ]);
    return (path) =>
      path.startsWith(API_PREFIX) ? guarded(this.#apiRoute(path.slice(API_PREFIX.length))) : routes.get(path);
  }

  #apiRoute(name: string): MethodHandlers {
    return { POST: async (request) => (await this.#loadApi())(name, request) };
  }

  /**
   * Loads the API with its first call, because its messages and protocols take 5 MB, and a fifth of the time to start.
   */
  #loadApi(): Promise<AnswerCall> {
    const base = {
      ...{ sources: this.#sources, history: this.#history, logger: this.#logger },
      stopping: this.#stopping.signal,
    };
    this.#api ??= import("./api-handler.ts").then(({ openApi }) => openApi(base));
    return this.#api;
  }
}
