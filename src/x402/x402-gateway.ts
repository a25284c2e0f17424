import type { Logger } from "pino";
import type { BackgroundService } from "../background-service.ts";
import { type Clock, systemClock } from "../clock.ts";
import type { X402Config } from "../config/config.ts";
import type { EventHub } from "../events.ts";
import { jsonResponse, textResponse } from "../http/http-response.ts";
import { HttpServer } from "../http/http-server.ts";
import type { MethodHandlers, RouteTable } from "../http/routes.ts";
import type { JobKey } from "../job-call.ts";
import { createPriceMap } from "../pricing/price-map.ts";
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
import { createJobCatalog, offerTerms } from "./job-catalog.ts";
import { parseCallPath, parseJobPath } from "./job-path.ts";
import { chargedNothing, createJobRoute } from "./job-route.ts";
import { OfferBook } from "./offer-book.ts";
import { createOfferTime, type OfferTime } from "./offer-time.ts";
import { PaymentsInHand } from "./payments-in-hand.ts";
import { createPriceRoute } from "./price-route.ts";
import { createPurchasing } from "./purchase.ts";
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
  /** What happens in the store; without it, clients who wait for a result get it up to a second later. */
  readonly events?: EventHub;
}

const RPC_TIMEOUT_MS = 5_000;

/** HTTP endpoints at which jobs are bought over x402. */
export class X402Gateway implements BackgroundService {
  readonly #options: X402GatewayOptions;
  readonly #server: HttpServer;
  readonly #clock: Clock;
  readonly #offers: OfferBook;
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
    this.#offerTime = createOfferTime(this.#clock);
    this.#offers = new OfferBook({ ledger: store, clock: this.#clock, logger });
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
    await this.#offers.load();
    await this.reload(this.#options.config);
    await this.#reconciler.start();
    await this.#server.mount(this.#find).catch(async (error: unknown) => {
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
  }

  /**
   * Takes over new prices, tokens and policies; offers made before stay payable for their time.
   * Addresses and the facilitator stay as they were.
   */
  async reload(config: X402Config): Promise<void> {
    this.#evidence.watch(config.acceptedTokens);
    await this.#offers.publish(offerTerms(config));
    this.#routes = this.#routesOf(config);
  }

  readonly #find: RouteTable = (path) => this.#routes(path);

  #routesOf(config: X402Config): RouteTable {
    const { store } = this.#options;
    const catalog = createJobCatalog(config, createPriceMap(config.jobPricing));
    const offers = this.#offers;
    const resourceOf = ({ serviceId, jobIndex }: JobKey) =>
      `${config.publicUrl}/x402/jobs/${serviceId}/${jobIndex}`;
    const limits = createClientLimits(config.limits);
    const purchasing = createPurchasing({
      offers,
      store,
      facilitator: this.#facilitator,
      evidence: this.#evidence,
      settlement: this.#settlement,
      callerAuth: this.#callerAuth,
      producer: new X402Producer(),
      limits,
      offerTime: this.#offerTime,
      clock: this.#clock,
      resourceOf,
    });
    const runJob = createJobRoute({
      catalog,
      offers,
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
      callerAuth: this.#callerAuth,
      purchasing,
      limits,
      stats: this.#stats,
      maxBodyBytes: config.maxBodyBytes,
    });
    const showPrice = createPriceRoute({ catalog, offers, resourceOf });
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
