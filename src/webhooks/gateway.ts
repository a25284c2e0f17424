import type { Logger } from "pino";
import type { WebhooksConfig } from "../config/config.ts";
import type { BackgroundService } from "../core/background-service.ts";
import { type Clock, systemClock } from "../core/clock.ts";
import { RateLimit } from "../http/rate-limit.ts";
import { textResponse } from "../http/response.ts";
import type { MethodHandlers, RouteTable } from "../http/routes.ts";
import { HttpServer } from "../http/server.ts";
import type { Intake } from "../store/contract/intake.ts";
import { WebhookProducer } from "./producer.ts";
import { webhookRoute } from "./route.ts";

export interface WebhookGatewayOptions {
  readonly config: WebhooksConfig;
  /** u64, stamped on every JobCall. */
  readonly serviceId: bigint;
  /** Where accepted JobCalls go. */
  readonly intake: Intake;
  readonly logger: Logger;
  readonly clock?: Clock;
  /** Shares this server's socket; without it the gateway opens one of its own at `config.bindAddress`. */
  readonly server?: HttpServer;
}

/** HTTP endpoints whose authentic requests become JobCalls. */
export class WebhookGateway implements BackgroundService {
  readonly #options: WebhookGatewayOptions;
  readonly #server: HttpServer;
  /** Requests by endpoint path; the counts outlive a reload. */
  readonly #rateLimit = new RateLimit();
  #endpoints: Endpoints;

  constructor(options: WebhookGatewayOptions) {
    this.#options = options;
    this.#server =
      options.server ?? new HttpServer({ address: options.config.bindAddress, logger: options.logger });
    this.#endpoints = this.#routesOf(options.config);
  }

  /** `host:port`, once started. */
  get address(): string {
    return this.#server.address;
  }

  start(): Promise<void> {
    return this.#server.mount(this.#find, "webhooks");
  }

  stop(): Promise<void> {
    return this.#server.unmount(this.#find);
  }

  /** Takes over new endpoints and secrets at once; the address stays. */
  reload(config: WebhooksConfig): void {
    this.#endpoints = this.#routesOf(config);
  }

  readonly #find: RouteTable = (path) => {
    const { byPath, byTokenPath } = this.#endpoints;
    return byPath.get(path) ?? byTokenPath.get(path.slice(0, path.lastIndexOf("/")));
  };

  #routesOf(config: WebhooksConfig): Endpoints {
    const { serviceId, intake, logger, clock = systemClock } = this.#options;
    const producer = new WebhookProducer({ serviceId });
    const { maxBodyBytes, trustedProxies = [] } = config;
    const byPath = new Map<string, MethodHandlers>([
      ["/webhooks/health", { GET: () => textResponse(200, "ok") }],
    ]);
    const byTokenPath = new Map<string, MethodHandlers>();
    for (const endpoint of config.endpoints) {
      const { path, auth } = endpoint;
      const route = {
        endpoint,
        maxBodyBytes,
        trustedProxies,
        producer,
        intake,
        rateLimit: this.#rateLimit,
        logger,
        clock,
      };
      // Not the path as it was sent: a token may stand in it.
      const handlers = { ...webhookRoute(route), route: path };
      byPath.set(path, handlers);
      if (auth.mode === "url-token") byTokenPath.set(path, handlers);
    }
    return { byPath, byTokenPath };
  }
}

interface Endpoints {
  readonly byPath: ReadonlyMap<string, MethodHandlers>;
  /** Of endpoints whose secret is the path segment after theirs. */
  readonly byTokenPath: ReadonlyMap<string, MethodHandlers>;
}
