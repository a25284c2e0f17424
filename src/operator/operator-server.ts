import type { BackgroundService } from "../background-service.ts";
import type { HttpServer } from "../http/http-server.ts";
import type { RouteTable } from "../http/routes.ts";
import type { StoreStatus } from "../store/store.ts";
import { healthRoutes } from "./health-routes.ts";

export interface OperatorServerOptions {
  readonly server: HttpServer;
  readonly status: () => StoreStatus;
}

/** What the operator, and whatever watches jobgate, asks. */
export class OperatorServer implements BackgroundService {
  readonly #server: HttpServer;
  readonly #health: RouteTable;

  constructor(options: OperatorServerOptions) {
    this.#server = options.server;
    this.#health = healthRoutes(options.status);
  }

  /** `host:port` or `unix:path`, once started. */
  get address(): string {
    return this.#server.address;
  }

  start(): Promise<void> {
    return this.#server.mount(this.#health);
  }

  stop(): Promise<void> {
    return this.#server.unmount(this.#health);
  }
}
