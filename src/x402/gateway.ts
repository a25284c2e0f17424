import type { Logger } from "pino";
import type { X402Config } from "../config/config.ts";
import type { BackgroundService } from "../core/background-service.ts";
import { type Clock, monotonicClock, systemClock } from "../core/clock.ts";
import type { EventHub } from "../core/events.ts";
import type { RouteTable } from "../http/routes.ts";
import { HttpServer } from "../http/server.ts";
import { createPriceMap, type PriceSource } from "../pricing/price-source.ts";
import type { QuotePayment, ReceivedQuote } from "../pricing/quote-payment.ts";
import { RateBoard, type RateReport } from "../pricing/rates/rate-board.ts";
import type { Store } from "../store/store.ts";
import { NO_TELEMETRY, type Telemetry } from "../telemetry/telemetry.ts";
import { CallerAuth } from "./callers/caller-auth.ts";
import { CallerChain } from "./callers/chain.ts";
import { AccessTokens } from "./calls/access-tokens.ts";
import { CallRoute } from "./calls/call-route.ts";
import { CallEvents } from "./calls/events.ts";
import { ResultWaits } from "./calls/wait-for-result.ts";
import { CallWatch } from "./calls/watch.ts";
import { JobCatalog } from "./prices/job-catalog.ts";
import { OfferBook } from "./prices/offer-book.ts";
import { PriceBook } from "./prices/price-book.ts";
import { PriceChecks } from "./prices/price-checks.ts";
import { answerPrice } from "./prices/price-route.ts";
import { QuoteBook } from "./prices/quote-book.ts";
import { X402Producer } from "./producer.ts";
import { ClientLimits } from "./purchase/client-limits.ts";
import { DryRunRoute } from "./purchase/dry-run-route.ts";
import { JobRoute } from "./purchase/job-route.ts";
import { Purchase } from "./purchase/purchase.ts";
import { x402Routes } from "./routes.ts";
import { ChainEvidence } from "./settlement/chain-evidence.ts";
import { Facilitator } from "./settlement/facilitator.ts";
import { PaymentsInProgress } from "./settlement/payments-in-progress.ts";
import { Reconciler } from "./settlement/reconciler.ts";
import { Settlement } from "./settlement/settlement.ts";
import { X402Stats } from "./stats.ts";

export interface X402GatewayOptions {
  /** The `[x402]` table with `[job_pricing]`, as a configuration loader returns it. */
  readonly config: X402Config;
  /** Keeps payments, offers and the JobCalls that were paid for. The embedder opens and closes it. */
  readonly store: Store;
  readonly logger: Logger;
  /** Returns Unix milliseconds. Default: the system's clock. */
  readonly clock?: Clock;
  /** Server to share a socket with. Default: a server of the gateway's own at `config.bindAddress`. */
  readonly server?: HttpServer;
  /** Returns the price of a job. Default: the prices in `config.jobPricing`. */
  readonly prices?: PriceSource;
  /** Lets requests name and pay the quotes that passed through {@link X402Gateway.quotePayment}. Default: false. */
  readonly redeemsQuotes?: boolean;
  /**
   * Hub that reports changes in the store. Without it, clients that wait for a result or read its events get them up
   * to a second later.
   */
  readonly events?: EventHub;
  /** Receives counts and durations. Default: none are kept. */
  readonly telemetry?: Telemetry;
}

/** Default periods of settlement. */
const SETTLEMENT_PERIODS = {
  /** Longest time of one RPC call. */
  rpcTimeoutMs: 5_000,
  /** Time between the two looks at the chain that it takes to say that a payment was not paid. */
  secondLookAfterMs: 500,
  /** Time between two rounds of the reconciler. */
  roundMs: 1_000,
  /** Time between the reconciler's first two checks of a payment. */
  firstDelayMs: 1_000,
  /** Time between two looks at unresolved and decided payments. */
  slowRoundMs: 60_000,
};

export type SettlementPeriods = Readonly<typeof SETTLEMENT_PERIODS>;

/** HTTP service that sells runs of jobs for x402 payments. */
export class X402Gateway implements BackgroundService {
  readonly #options: X402GatewayOptions;
  readonly #clock: Clock;
  readonly #server: HttpServer;
  readonly #rates: RateBoard;
  readonly #priceChecks: PriceChecks;
  readonly #offers: OfferBook;
  readonly #quotes: QuoteBook;
  readonly #callerAuth: CallerAuth;
  readonly #facilitator: Facilitator;
  readonly #evidence: ChainEvidence;
  readonly #settlement: Settlement;
  readonly #inProgress = new PaymentsInProgress();
  readonly #reconciler: Reconciler;
  readonly #callWatch: CallWatch;
  readonly #waits: ResultWaits;
  readonly #tokens: AccessTokens;
  readonly #callRoute: CallRoute;
  readonly #limits: ClientLimits;
  readonly #stats = new X402Stats();
  /** Routes at the current configuration. */
  #routes: RouteTable = () => undefined;
  /** Ways to pay a quote at the current configuration. */
  #quotePayment = (_quote: ReceivedQuote): Promise<QuotePayment | undefined> => Promise.resolve(undefined);

  constructor(options: X402GatewayOptions, periods: Partial<SettlementPeriods> = {}) {
    const { rpcTimeoutMs, secondLookAfterMs, ...reconciling } = { ...SETTLEMENT_PERIODS, ...periods };
    const { config, store, logger, clock = systemClock, telemetry = NO_TELEMETRY } = options;
    // Measures what elapses: nobody sets it, unless a test does.
    const elapsed = options.clock ?? monotonicClock;
    const settleTimeoutMs = config.facilitatorTimeoutMs;
    this.#options = options;
    this.#clock = clock;
    this.#server = options.server ?? new HttpServer({ address: config.bindAddress, logger, telemetry });

    this.#rates = new RateBoard({ clock, logger });
    this.#offers = new OfferBook({ ledger: store, rates: this.#rates, clock, logger });
    this.#priceChecks = new PriceChecks({ rates: this.#rates, clock, logger });
    this.#quotes = new QuoteBook({ ledger: store, rates: this.#rates, checks: this.#priceChecks, clock });

    const callerChain = new CallerChain({ timeoutMs: rpcTimeoutMs, clock: elapsed, telemetry });
    this.#callerAuth = new CallerAuth({ chain: callerChain, journal: store, clock });

    this.#facilitator = new Facilitator({
      url: config.facilitatorUrl,
      timeoutMs: settleTimeoutMs,
      telemetry,
    });
    this.#evidence = new ChainEvidence({
      tokens: config.acceptedTokens,
      rpcTimeoutMs,
      secondLookAfterMs,
      telemetry,
    });
    this.#settlement = new Settlement({
      journal: store,
      facilitator: this.#facilitator,
      evidence: this.#evidence,
      confirmationTimeoutMs: settleTimeoutMs,
      clock,
      logger,
      telemetry,
    });
    this.#reconciler = new Reconciler({
      journal: store,
      settlement: this.#settlement,
      evidence: this.#evidence,
      settleTimeoutMs,
      inProgress: this.#inProgress,
      ...reconciling,
      clock: elapsed,
      logger,
    });

    this.#callWatch = new CallWatch({ calls: store, events: options.events });
    this.#waits = new ResultWaits({ calls: store, watch: this.#callWatch });
    this.#tokens = new AccessTokens(store);
    this.#limits = new ClientLimits(config);
    this.#callRoute = new CallRoute({
      calls: store,
      events: new CallEvents({ watch: this.#callWatch, clock: elapsed }),
      tokens: this.#tokens,
      limits: this.#limits,
    });
  }

  /** `host:port`, once started. */
  get address(): string {
    return this.#server.address;
  }

  async start(): Promise<void> {
    await this.#tokens.load();
    await this.reload(this.#options.config);
    await this.#reconciler.start();
    await this.#server.mount(this.#find, "x402").catch(async (error: unknown) => {
      await this.#reconciler.stop();
      throw error;
    });
  }

  /** Takes no new requests; resolves once the current ones are answered, settlements included. */
  async stop(): Promise<void> {
    // The jobs that clients wait for go on, so the clients are answered now.
    this.#callWatch.stop();
    await this.#server.unmount(this.#find);
    await this.#reconciler.stop();
    this.#rates.stop();
  }

  /**
   * Applies new prices, tokens, policies and limits. Offers made before stay payable for their lifetime. The address
   * and the facilitator stay as they were.
   */
  async reload(config: X402Config): Promise<void> {
    const { store, logger, redeemsQuotes = false } = this.#options;
    const { acceptedTokens: tokens, quoteTtlSecs, maxBodyBytes, publicUrl } = config;
    const [rates, limits, stats, clock] = [this.#rates, this.#limits, this.#stats, this.#clock];
    this.#evidence.watch(tokens);
    await rates.watch(tokens);
    limits.reload(config);

    const source = this.#priceChecks.payablePrices(
      this.#options.prices ?? createPriceMap(config.jobPricing),
      tokens,
    );
    const catalog = new JobCatalog(config, source);
    const prices = new PriceBook({
      catalog,
      prices: source,
      offers: this.#offers,
      quotes: redeemsQuotes ? this.#quotes : undefined,
      tokens,
      quoteTtlSecs,
      clock,
    });
    const purchase = new Purchase({
      prices,
      callerAuth: this.#callerAuth,
      store,
      facilitator: this.#facilitator,
      evidence: this.#evidence,
      settlement: this.#settlement,
      inProgress: this.#inProgress,
      producer: new X402Producer(),
      limits,
      stats,
      maxBodyBytes,
      publicUrl,
      undecidedLimits: config,
    });
    this.#routes = x402Routes({
      job: new JobRoute({ purchase, waits: this.#waits, tokens: this.#tokens, publicUrl, stats, logger }),
      dryRun: new DryRunRoute({
        prices,
        callerAuth: this.#callerAuth,
        purchase,
        limits,
        stats,
        maxBodyBytes,
      }),
      price: (job) => answerPrice(job, { prices, tokens, rates, publicUrl, clock }),
      call: this.#callRoute,
      stats,
    });
    const atThisConfig = { catalog, tokens, quoteTtlSecs, publicUrl };
    this.#quotePayment = (quote) => this.#quotes.paymentFor(quote, atThisConfig);
  }

  /** Returns every token's rate, for the operator. */
  rates(): RateReport[] {
    return this.#rates.report();
  }

  /** Returns the ways to pay a quote of the pricing engine here; undefined when it cannot be paid. */
  quotePayment(quote: ReceivedQuote): Promise<QuotePayment | undefined> {
    return this.#quotePayment(quote);
  }

  readonly #find: RouteTable = (path) => this.#routes(path);
}
