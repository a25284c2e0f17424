import type { X402Config } from "../config/config.ts";
import type { BackgroundService } from "../core/background-service.ts";
import type { Cors } from "../http/cors.ts";
import type { RouteTable } from "../http/routes.ts";
import { HttpServer } from "../http/server.ts";
import { requestsOfPages, x402Cors } from "./cors.ts";
import { Doors } from "./doors/doors.ts";
import type { X402GatewayOptions } from "./gateway-options.ts";
import type { ListedJob } from "./jobs/listing.ts";
import type { X402Periods } from "./periods.ts";
import type { QuotePayment, ReceivedQuote } from "./prices/quotes.ts";
import type { RateReport } from "./prices/token-rates.ts";
import { chargedNothing } from "./purchase/payment-answer.ts";
import { x402Routes } from "./routes.ts";
import { Services } from "./services.ts";
import type { Charges } from "./settlement/charges.ts";
import { openShop, type Shop } from "./shop.ts";
import { AccountContracts } from "./sign-in/account-contracts.ts";
import { SignIn } from "./sign-in/sign-in.ts";

/** HTTP service that sells runs of jobs for x402 payments. */
export class X402Gateway implements BackgroundService {
  readonly #config: X402Config;
  readonly #callbackKeys: X402GatewayOptions["callbackKeys"];
  readonly #services: Services;
  readonly #server: HttpServer;
  readonly #cors: Cors;
  readonly #doors: Doors;
  readonly #signIn: SignIn;
  /** The shop of the current configuration, and the way to it. */
  #open: { readonly shop: Shop; readonly routes: RouteTable } | undefined;

  constructor(options: X402GatewayOptions, periods: Partial<X402Periods> = {}) {
    const { config, callbackKeys } = options;
    const services = new Services(options, periods);
    const { store, logger, telemetry } = services;
    this.#config = config;
    this.#callbackKeys = callbackKeys;
    this.#services = services;
    this.#server = options.server ?? new HttpServer({ address: config.bindAddress, logger, telemetry });
    this.#cors = x402Cors(config);
    this.#doors = new Doors(services);
    const contracts = new AccountContracts({ timeoutMs: services.periods.rpcTimeoutMs, telemetry });
    this.#signIn = new SignIn({ ...services, nonces: store, contracts, publicUrl: config.publicUrl });
  }

  /** Charges of the jobs that are paid by use. */
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
      await this.reload(this.#config);
      await this.#services.start();
      await this.#server.mount(this.#find, {
        listener: "x402",
        cors: this.#cors,
        prefix: "/x402/",
        refusalDetails: chargedNothing,
      });
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /** Takes no new requests; resolves once the current ones are answered, settlements included. */
  async stop(): Promise<void> {
    // The jobs that clients wait for go on, so the clients are answered now.
    this.#services.watch.stop();
    await this.#server.unmount(this.#find);
    await this.#services.stop();
  }

  /**
   * Applies new prices, tokens, policies and limits, and new secrets of the same facilitators. Offers made before stay
   * payable for their lifetime. The address stays as it was.
   */
  async reload(config: X402Config): Promise<void> {
    const shop = await openShop(this.#services, {
      config,
      before: this.#open?.shop,
      sendsCallbacks: this.#callbackKeys !== undefined,
    });
    this.#signIn.reload(config);
    this.#cors.allow(requestsOfPages(config));
    const routes = x402Routes(this.#services, shop, {
      ...this.#doors.open(shop),
      signIn: this.#signIn,
      callbackKeys: this.#callbackKeys,
    });
    this.#open = { shop, routes };
  }

  /** Returns every token's rate, for the operator. */
  rates(): RateReport[] {
    return this.#services.prices.rates.report();
  }

  /** Returns the jobs for sale, for the operator. */
  async jobs(): Promise<readonly ListedJob[]> {
    return (await this.#open?.shop.listing.jobs()) ?? [];
  }

  /** Returns the ways to pay a quote of the pricing engine here; undefined when it cannot be paid. */
  async quotePayment(quote: ReceivedQuote): Promise<QuotePayment | undefined> {
    return this.#open?.shop.quotePayment(quote);
  }

  readonly #find: RouteTable = (path) => this.#open?.routes(path);
}
