import type { Logger } from "pino";
import type { X402Config } from "../config/config.ts";
import type { BackgroundService } from "../core/background-service.ts";
import { type Clock, systemClock } from "../core/clock.ts";
import type { EventHub } from "../core/events.ts";
import type { RouteTable } from "../http/routes.ts";
import { HttpServer } from "../http/server.ts";
import { createPriceMap, type PriceSource } from "../pricing/price-map.ts";
import type { PayWith } from "../pricing/quote-payment.ts";
import { createRateBoard, type RateReport } from "../pricing/rates/rate-board.ts";
import type { Store } from "../store/store.ts";
import { NO_TELEMETRY, type Telemetry } from "../telemetry/telemetry.ts";
import { createCallerAuth } from "./callers/caller-auth.ts";
import { createCallerChain } from "./callers/chain.ts";
import { createCallEvents } from "./calls/events.ts";
import { createWaitForResult } from "./calls/wait-for-result.ts";
import { type CallWatch, createCallWatch } from "./calls/watch.ts";
import { createOfferBook } from "./prices/offer-book.ts";
import { createOfferTime } from "./prices/offer-time.ts";
import { createPayWith } from "./prices/pay-with.ts";
import { createQuoteBook } from "./prices/quote-book.ts";
import { ClientLimits } from "./purchase/client-limits.ts";
import { createX402Routes, type X402Parts } from "./routes.ts";
import { createChainEvidence } from "./settlement/chain-evidence.ts";
import { createFacilitator } from "./settlement/facilitator.ts";
import { measureFacilitator } from "./settlement/measured-facilitator.ts";
import { PaymentsInHand } from "./settlement/payments-in-progress.ts";
import { Reconciler } from "./settlement/reconciler.ts";
import { Settlement } from "./settlement/settlement.ts";
import { X402Stats } from "./stats.ts";

export interface X402GatewayOptions {
  readonly config: X402Config;
  /** Where payments are journalled and paid JobCalls go. */
  readonly store: Store;
  readonly logger: Logger;
  readonly clock?: Clock;
  /** Shares this server's socket; without it the gateway opens one of its own at `config.bindAddress`. */
  readonly server?: HttpServer;
  /** Where prices come from; without it, from `config.jobPricing`. */
  readonly prices?: PriceSource;
  /** Whether quotes of a pricing engine come through {@link X402Gateway.payWith}, and can be paid here. Default: no. */
  readonly redeemsQuotes?: boolean;
  /** What happens in the store; without it, clients who wait for a result get it up to a second later. */
  readonly events?: EventHub;
  /** Is told what the gateway does and how long it takes. Default: nobody is. */
  readonly telemetry?: Telemetry;
}

const RPC_TIMEOUT_MS = 5_000;

/** HTTP endpoints at which jobs are bought over x402. */
export class X402Gateway implements BackgroundService {
  readonly #options: X402GatewayOptions;
  readonly #server: HttpServer;
  readonly #callWatch: CallWatch;
  readonly #parts: X402Parts;
  readonly #reconciler: Reconciler;
  /** Of the configuration that counts now. */
  #routes: RouteTable = () => undefined;
  #payWith: PayWith = () => Promise.resolve(undefined);

  constructor(options: X402GatewayOptions) {
    const { config, store, logger, events, clock = systemClock, telemetry = NO_TELEMETRY } = options;
    this.#options = options;
    this.#server = options.server ?? new HttpServer({ address: config.bindAddress, logger, telemetry });
    this.#callWatch = createCallWatch({ calls: store, ...(events === undefined ? {} : { events }) });
    const facilitator = measureFacilitator(
      createFacilitator({ url: config.facilitatorUrl, timeoutMs: config.facilitatorTimeoutMs }),
      telemetry,
    );
    const evidence = createChainEvidence({
      tokens: config.acceptedTokens,
      rpcTimeoutMs: RPC_TIMEOUT_MS,
      telemetry,
    });
    const settlement = new Settlement({
      journal: store,
      facilitator,
      evidence,
      confirmationTimeoutMs: config.facilitatorTimeoutMs,
      clock,
      logger,
    });
    const inHand = new PaymentsInHand();
    this.#reconciler = new Reconciler({
      journal: store,
      settlement,
      evidence,
      settleTimeoutMs: config.facilitatorTimeoutMs,
      inHand,
      clock,
      logger,
    });
    this.#parts = {
      store,
      facilitator,
      evidence,
      settlement,
      inHand,
      clock,
      callerAuth: createCallerAuth({
        chain: createCallerChain({ timeoutMs: RPC_TIMEOUT_MS, clock, telemetry }),
        journal: store,
        clock,
      }),
      offers: createOfferBook({ ledger: store, clock, logger }),
      quotes: createQuoteBook(store),
      rates: createRateBoard({ clock, logger }),
      waitForResult: createWaitForResult({ calls: store, watch: this.#callWatch }),
      streamEvents: createCallEvents({ watch: this.#callWatch, clock }),
      offerTime: createOfferTime(clock),
      limits: new ClientLimits(config.limits),
      stats: new X402Stats(),
      logger,
    };
  }

  /** `host:port`, once started. */
  get address(): string {
    return this.#server.address;
  }

  async start(): Promise<void> {
    await this.reload(this.#options.config);
    await this.#reconciler.start();
    await this.#server.mount(this.#find, "x402").catch(async (error: unknown) => {
      await this.#reconciler.stop();
      throw error;
    });
  }

  /** Takes no new requests; resolves once those in hand are answered, settlements included. */
  async stop(): Promise<void> {
    // The jobs that clients wait for go on; the clients are told so now.
    this.#callWatch.stop();
    await this.#server.unmount(this.#find);
    await this.#reconciler.stop();
    this.#parts.rates.stop();
  }

  /**
   * Takes over new prices, tokens and policies; offers made before stay payable for their time.
   * Addresses and the facilitator stay as they were.
   */
  async reload(config: X402Config): Promise<void> {
    const { evidence, rates, limits } = this.#parts;
    evidence.watch(config.acceptedTokens);
    await rates.watch(config.acceptedTokens);
    const prices = this.#options.prices ?? createPriceMap(config.jobPricing);
    const { redeemsQuotes = false } = this.#options;
    limits.reload(config.limits);
    this.#routes = createX402Routes({ config, prices, redeemsQuotes, parts: this.#parts });
    this.#payWith = createPayWith({ config, ...this.#parts });
  }

  /** Every token's rate, for the operator. */
  rates(): RateReport[] {
    return this.#parts.rates.report();
  }

  /** How a quote that went through the pricing engine's service can be paid here. */
  readonly payWith: PayWith = (received) => this.#payWith(received);

  readonly #find: RouteTable = (path) => this.#routes(path);
}
