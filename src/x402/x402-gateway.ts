import type { Logger } from "pino";
import type { BackgroundService } from "../background-service.ts";
import { type Clock, systemClock } from "../clock.ts";
import type { X402Config } from "../config/config.ts";
import type { EventHub } from "../events.ts";
import { jsonResponse, textResponse } from "../http/http-response.ts";
import { HttpServer } from "../http/http-server.ts";
import type { MethodHandlers, RouteTable } from "../http/routes.ts";
import type { JobKey } from "../job-call.ts";
import { createPriceMap, type PriceSource } from "../pricing/price-map.ts";
import { createRateBoard, type RateBoard, type RateReport } from "../pricing/rates/rate-board.ts";
import type { Store } from "../store/store.ts";
import { createCallEvents, type StreamCallEvents } from "./call-events.ts";
import { createCallRoute } from "./call-route.ts";
import { type CallWatch, createCallWatch } from "./call-watch.ts";
import { type CallerAuth, createCallerAuth } from "./caller-auth.ts";
import { createCallerChain } from "./caller-chain.ts";
import { type ChainEvidence, createChainEvidence } from "./chain-evidence.ts";
import { createClientLimits } from "./client-limits.ts";
import { createDryRunRoute } from "./dry-run-route.ts";
import { createFacilitator } from "./facilitator.ts";
import { createJobCatalog } from "./job-catalog.ts";
import { parseCallPath, parseJobPath } from "./job-path.ts";
import { chargedNothing, createJobRoute } from "./job-route.ts";
import { createListPrice } from "./list-price.ts";
import type { PricedToken } from "./offer.ts";
import { createOfferBook, type OfferBook } from "./offer-book.ts";
import { createOfferTime, type OfferTime } from "./offer-time.ts";
import { PaymentsInHand } from "./payments-in-hand.ts";
import { createPriceRoute } from "./price-route.ts";
import { createPriceTags } from "./price-tag.ts";
import { createPurchasing } from "./purchase.ts";
import { createQuoteBook, type QuoteBook } from "./quote-book.ts";
import { createQuotedPrice } from "./quoted-price.ts";
import { Reconciler } from "./reconciler.ts";
import { Settlement } from "./settlement.ts";
import { X402Stats } from "./stats.ts";
import { createWaitForResult, type WaitForResult } from "./wait-for-result.ts";
import { X402Producer } from "./x402-producer.ts";

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
  /** What happens in the store; without it, clients who wait for a result get it up to a second later. */
  readonly events?: EventHub;
}

const RPC_TIMEOUT_MS = 5_000;

/** HTTP endpoints at which jobs are bought over x402. */
export class X402Gateway implements BackgroundService {
  readonly #options: X402GatewayOptions;
  readonly #server: HttpServer;
  readonly #clock: Clock;
  readonly #rates: RateBoard;
  readonly #offers: OfferBook;
  readonly #quotes: QuoteBook;
  readonly #evidence: ChainEvidence;
  readonly #callerAuth: CallerAuth;
  readonly #settlement: Settlement;
  readonly #reconciler: Reconciler;
  readonly #stats = new X402Stats();
  readonly #inHand = new PaymentsInHand();
  readonly #offerTime: OfferTime;
  readonly #callWatch: CallWatch;
  readonly #waitForResult: WaitForResult;
  readonly #streamEvents: StreamCallEvents;
  readonly #facilitator: ReturnType<typeof createFacilitator>;
  #routes: RouteTable = () => undefined;

  constructor(options: X402GatewayOptions) {
    const { config, store, logger, events } = options;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#server = options.server ?? new HttpServer({ address: config.bindAddress, logger });
    this.#rates = createRateBoard({ clock: this.#clock, logger });
    this.#offerTime = createOfferTime(this.#clock);
    this.#offers = createOfferBook({ ledger: store, clock: this.#clock, logger });
    this.#quotes = createQuoteBook(store);
    this.#callWatch = createCallWatch({ calls: store, ...(events === undefined ? {} : { events }) });
    this.#waitForResult = createWaitForResult({ calls: store, watch: this.#callWatch });
    this.#streamEvents = createCallEvents({ watch: this.#callWatch, clock: this.#clock });
    this.#facilitator = createFacilitator({
      url: config.facilitatorUrl,
      timeoutMs: config.facilitatorTimeoutMs,
    });
    this.#evidence = createChainEvidence({ tokens: config.acceptedTokens, rpcTimeoutMs: RPC_TIMEOUT_MS });
    this.#callerAuth = createCallerAuth({
      chain: createCallerChain({ timeoutMs: RPC_TIMEOUT_MS, clock: this.#clock }),
      journal: store,
      clock: this.#clock,
    });
    this.#settlement = new Settlement({
      journal: store,
      facilitator: this.#facilitator,
      evidence: this.#evidence,
      confirmationTimeoutMs: config.facilitatorTimeoutMs,
      clock: this.#clock,
      logger,
    });
    this.#reconciler = new Reconciler({
      journal: store,
      settlement: this.#settlement,
      inHand: this.#inHand,
      clock: this.#clock,
      logger,
    });
  }

  /** `host:port`, once started. */
  get address(): string {
    return this.#server.address;
  }

  async start(): Promise<void> {
    await this.reload(this.#options.config);
    await this.#reconciler.start();
    await this.#server.mount(this.#find).catch(async (error: unknown) => {
      await this.#reconciler.stop();
      this.#rates.stop();
      throw error;
    });
  }

  /** Takes no new requests; resolves once those in hand are answered, settlements included. */
  async stop(): Promise<void> {
    // The jobs that clients wait for go on; the clients are told so now.
    this.#callWatch.stop();
    await this.#server.unmount(this.#find);
    await this.#reconciler.stop();
    this.#rates.stop();
  }

  /** Every accepted token's rate, fixed or live, as it is now. */
  rates(): readonly RateReport[] {
    return this.#rates.report();
  }

  /**
   * Takes over new prices, tokens and policies; offers made before stay payable for their time.
   * Addresses and the facilitator stay as they were.
   */
  async reload(config: X402Config): Promise<void> {
    await this.#rates.watch(config.acceptedTokens);
    this.#evidence.watch(config.acceptedTokens);
    this.#routes = this.#routesOf(config);
  }

  readonly #find: RouteTable = (path) => this.#routes(path);

  #pricedTokens({ acceptedTokens }: X402Config): PricedToken[] {
    return acceptedTokens.flatMap((token) => {
      const rate = this.#rates.rateOf(token);
      return rate === undefined ? [] : [{ ...token, ratePerNativeUnit: rate.ratePerNativeUnit }];
    });
  }

  #routesOf(config: X402Config): RouteTable {
    const { store } = this.#options;
    const prices = this.#options.prices ?? createPriceMap(config.jobPricing);
    const catalog = createJobCatalog(config, prices);
    const listPrice = createListPrice({
      prices,
      pricedTokens: () => this.#pricedTokens(config),
      quoteTtlSecs: config.quoteTtlSecs,
      offers: this.#offers,
      offerTime: this.#offerTime,
      clock: this.#clock,
    });
    const priceTags = createPriceTags({
      listPrice,
      quotedPrice: createQuotedPrice({ quotes: this.#quotes, clock: this.#clock }),
    });
    const resourceOf = ({ serviceId, jobIndex }: JobKey) =>
      `${config.publicUrl}/x402/jobs/${serviceId}/${jobIndex}`;
    const limits = createClientLimits(config.limits);
    const purchasing = createPurchasing({
      store,
      facilitator: this.#facilitator,
      evidence: this.#evidence,
      settlement: this.#settlement,
      callerAuth: this.#callerAuth,
      producer: new X402Producer(),
      limits,
      resourceOf,
    });
    const runJob = createJobRoute({
      catalog,
      priceTags,
      inHand: this.#inHand,
      purchasing,
      waitForResult: this.#waitForResult,
      limits,
      stats: this.#stats,
      maxBodyBytes: config.maxBodyBytes,
      resourceOf,
    });
    const dryRun = createDryRunRoute({
      catalog,
      priceTags,
      callerAuth: this.#callerAuth,
      purchasing,
      limits,
      stats: this.#stats,
      maxBodyBytes: config.maxBodyBytes,
    });
    const showPrice = createPriceRoute({ catalog, listPrice, resourceOf });
    const showCall = createCallRoute({ calls: store, streamEvents: this.#streamEvents });
    const fixed = new Map<string, MethodHandlers>([
      ["/x402/health", { GET: () => textResponse(200, "ok") }],
      ["/x402/stats", { GET: () => jsonResponse(200, { status: "ok", counters: this.#stats.counters() }) }],
    ]);

    return (path) => {
      const job = parseJobPath(path);
      if (job?.tail === "")
        return { POST: (request) => runJob(request, job), refusalDetails: chargedNothing };
      if (job?.tail === "/auth-dry-run") return { POST: (request) => dryRun(request, job) };
      if (job?.tail === "/price") return { GET: () => showPrice(job) };
      const call = parseCallPath(path);
      if (call !== undefined) return { GET: (request) => showCall(request, call) };
      return fixed.get(path);
    };
  }
}
