import type { Logger } from "pino";
import type { WebhookEndpoint, WebhooksConfig } from "../config/config.ts";
import type { BackgroundService } from "../core/background-service.ts";
import { type Clock, systemClock } from "../core/clock.ts";
import { RateLimit } from "../http/limits.ts";
import { textResponse } from "../http/response.ts";
import { healthHandlers, type MethodHandlers, type RouteTable } from "../http/routes.ts";
import { HttpServer } from "../http/server.ts";
import type { Intake } from "../store/contract/intake.ts";
import { WebhookRoute } from "./route.ts";

/** HTTP endpoints whose authentic requests become JobCalls. */
export class WebhookGateway implements BackgroundService {
  readonly #serviceId: bigint;
  readonly #intake: Intake;
  readonly #admit: (endpoint: WebhookEndpoint) => void;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #server: HttpServer;
  /** Requests by endpoint path; the counts outlive a reload. */
  readonly #rateLimit = new RateLimit();
  #byPath: ReadonlyMap<string, MethodHandlers> = new Map();
  /** Endpoints whose secret is the path segment after their path. */
  #byTokenPath: ReadonlyMap<string, MethodHandlers> = new Map();

  constructor(options: {
    readonly config: WebhooksConfig;
    /** Service ID of every JobCall, a u64. */
    readonly serviceId: bigint;
    /** Receives accepted JobCalls. */
    readonly intake: Intake;
    /** Refuses authentic requests of an endpoint by throwing a GatewayError. Default: no request is refused. */
    readonly admit?: (endpoint: WebhookEndpoint) => void;
    readonly logger: Logger;
    readonly clock?: Clock;
    /** Server to share a socket with. Default: a new server at `config.bindAddress`. */
    readonly server?: HttpServer;
  }) {
    const { config, logger } = options;
    this.#serviceId = options.serviceId;
    this.#intake = options.intake;
    this.#admit = options.admit ?? (() => undefined);
    this.#logger = logger;
    this.#clock = options.clock ?? systemClock;
    this.#server = options.server ?? new HttpServer({ address: config.bindAddress, logger });
    this.reload(config);
  }

  /** `host:port`, once started. */
  get address(): string {
    return this.#server.address;
  }

  start(): Promise<void> {
    return this.#server.mount(this.#find, { listener: "webhooks" });
  }

  stop(): Promise<void> {
    return this.#server.unmount(this.#find);
  }

  /** Applies new endpoints and secrets at once; the address stays. */
  reload({ endpoints, maxBodyBytes, trustedProxies = [] }: WebhooksConfig): void {
    const byPath = new Map<string, MethodHandlers>([
      ["/webhooks/health", healthHandlers(() => textResponse(200, "ok"))],
    ]);
    const byTokenPath = new Map<string, MethodHandlers>();
    for (const endpoint of endpoints) {
      const handlers = new WebhookRoute({
        endpoint,
        maxBodyBytes,
        trustedProxies,
        serviceId: this.#serviceId,
        intake: this.#intake,
        admit: this.#admit,
        rateLimit: this.#rateLimit,
        logger: this.#logger,
        clock: this.#clock,
      }).handlers();
      byPath.set(endpoint.path, handlers);
      if (endpoint.auth.mode === "url-token") byTokenPath.set(endpoint.path, handlers);
    }
    this.#byPath = byPath;
    this.#byTokenPath = byTokenPath;
  }

  readonly #find: RouteTable = (path) =>
    this.#byPath.get(path) ?? this.#byTokenPath.get(path.slice(0, path.lastIndexOf("/")));
}
