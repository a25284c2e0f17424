import type { Logger } from "pino";
import type { BackgroundService } from "../background-service.ts";
import type { WebhooksConfig } from "../config/config.ts";
import { textResponse } from "../http/http-response.ts";
import { HttpServer } from "../http/http-server.ts";
import type { MethodHandlers, RouteTable } from "../http/routes.ts";
import type { Intake } from "../store/store.ts";
import { WebhookProducer } from "./webhook-producer.ts";
import { webhookRoute } from "./webhook-route.ts";

export interface WebhookGatewayOptions {
  readonly config: WebhooksConfig;
  /** u64, stamped on every JobCall. */
  readonly serviceId: bigint;
  /** Where accepted JobCalls go. */
  readonly intake: Intake;
  readonly logger: Logger;
  /** Shares this server's socket; without it the gateway opens one of its own at `config.bindAddress`. */
  readonly server?: HttpServer;
}

/** HTTP endpoints whose authentic requests become JobCalls. */
export class WebhookGateway implements BackgroundService {
  readonly #options: WebhookGatewayOptions;
  readonly #server: HttpServer;
  #endpoints: ReadonlyMap<string, MethodHandlers>;

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

  readonly #find: RouteTable = (path) => this.#endpoints.get(path);

  #routesOf(config: WebhooksConfig): ReadonlyMap<string, MethodHandlers> {
    const { serviceId, intake } = this.#options;
    const producer = new WebhookProducer({ serviceId });
    const { maxBodyBytes } = config;
    return new Map<string, MethodHandlers>([
      ["/webhooks/health", { GET: () => textResponse(200, "ok") }],
      ...config.endpoints.map((endpoint): [string, MethodHandlers] => [
        endpoint.path,
        { POST: webhookRoute({ endpoint, maxBodyBytes, producer, intake }) },
      ]),
    ]);
  }
}
