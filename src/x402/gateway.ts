import type { X402Config } from "../config/config.ts";
import type { BackgroundService } from "../core/background-service.ts";
import { Cors } from "../http/cors.ts";
import type { RouteTable } from "../http/routes.ts";
import { HttpServer } from "../http/server.ts";
import { accessOfPages } from "./cors.ts";
import type { X402GatewayOptions, X402Periods } from "./gateway-options.ts";
import type { ListedJob } from "./jobs/listing.ts";
import { type OpenShop, openShop, type PreparedShop, prepareShop } from "./open-shop.ts";
import type { LoadX402Parts, X402Part } from "./part.ts";
import type { RateReport } from "./prices/token-rates.ts";
import { chargedNothing } from "./purchase/job-route.ts";
import { Services } from "./services.ts";
import type { Charges } from "./settlement/charges.ts";

interface Options extends X402GatewayOptions {
  /** Loads the parts' additions when the gateway starts. Default: no additions. */
  readonly parts?: LoadX402Parts;
}

/** HTTP service that sells runs of jobs for x402 payments. */
export class X402Gateway implements BackgroundService {
  readonly #options: Options;
  readonly #services: Services;
  readonly #server: HttpServer;
  readonly #cors: Cors;
  #parts: readonly X402Part[] = [];
  /** The shop of the current configuration. */
  #shop: OpenShop | undefined;

  constructor(options: Options, periods: Partial<X402Periods> = {}) {
    const { config } = options;
    const services = new Services(options, periods);
    const { logger, telemetry } = services;
    this.#options = options;
    this.#services = services;
    this.#server = options.server ?? new HttpServer({ address: config.bindAddress, logger, telemetry });
    this.#cors = new Cors(accessOfPages(config, [], services.methods.versions));
  }

  /** Charges of the jobs that are charged after they ran. */
  get charges(): Charges {
    return this.#services.payments.charges;
  }

  /** `host:port`, once started. */
  get address(): string {
    return this.#server.address;
  }

  async start(): Promise<void> {
    try {
      await this.#services.tokens.load();
      this.#parts = (await this.#options.parts?.(this.#services)) ?? [];
      await this.reload(this.#options.config);
      await this.#services.start();
      await this.#server.mount(this.#find, {
        listener: "x402",
        cors: this.#cors,
        prefix: "/x402/",
        refusalDetails: chargedNothing,
        unmatched: (request) => this.#shop?.way.unmatched(request),
      });
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /** Takes no new requests. Resolves once the current requests are answered, including their settlements. */
  async stop(): Promise<void> {
    // The jobs that clients wait for continue after the stop, so the clients are answered now.
    this.#services.watch.stop();
    await this.#server.unmount(this.#find);
    await this.#services.stop();
  }

  /**
   * Applies new prices, tokens, policies and limits, and new secrets of the same facilitators. Offers made before stay
   * payable for their lifetime. The address stays as it was.
   */
  async reload(config: X402Config): Promise<void> {
    await this.open(await this.prepare(config));
  }

  /** Makes the shop of a configuration, for {@link open}. Does not change the current shop. */
  prepare(config: X402Config): Promise<PreparedShop> {
    return prepareShop(this.#services, { config, parts: this.#parts });
  }

  /** Sells under the configuration of a prepared shop from now on. */
  async open(prepared: PreparedShop): Promise<void> {
    const shop = await openShop(this.#services, prepared, this.#shop);
    this.#cors.allow(shop.access);
    this.#shop = shop;
  }

  /** Returns every token's rate, for the operator. */
  rates(): RateReport[] {
    return this.#services.prices.rates.report();
  }

  /** Returns the jobs for sale, for the operator. */
  async jobs(): Promise<readonly ListedJob[]> {
    return (await this.#shop?.listing.jobs()) ?? [];
  }

  readonly #find: RouteTable = (path) => this.#shop?.way.routes(path);
}
