import type { X402Config } from "../config/config.ts";
import type { BackgroundService } from "../core/background-service.ts";
import { CallbackGuard } from "../core/callbacks.ts";
import { type Clock, monotonicClock, systemClock } from "../core/clock.ts";
import type { Cors } from "../http/cors.ts";
import type { RouteTable } from "../http/routes.ts";
import { HttpServer } from "../http/server.ts";
import { createJobPrices, createPriceMap } from "../pricing/price-source.ts";
import type { QuotePayment, ReceivedQuote } from "../pricing/quote-payment.ts";
import { RateBoard, type RateReport } from "../pricing/rates/rate-board.ts";
import { NO_TELEMETRY } from "../telemetry/telemetry.ts";
import { CallerAuth } from "./callers/caller-auth.ts";
import { CallerChain } from "./callers/chain.ts";
import { AccessTokens } from "./calls/access-tokens.ts";
import { CallRoute } from "./calls/call-route.ts";
import { CallEvents } from "./calls/events.ts";
import { PayerCallsRoute } from "./calls/payer-calls-route.ts";
import { CallWatch } from "./calls/watch.ts";
import { CatalogueRoutes } from "./catalogue/catalogue-routes.ts";
import { JobDescriptions } from "./catalogue/job-descriptions.ts";
import { type ListedJob, Listing } from "./catalogue/listing.ts";
import { sellerOf } from "./catalogue/seller.ts";
import { requestsOfPages, x402Cors } from "./cors.ts";
import { Doors } from "./doors/doors.ts";
import { Facilitators } from "./facilitators/facilitators.ts";
import type { X402GatewayOptions } from "./gateway-options.ts";
import { DEFAULT_PERIODS, type X402Periods } from "./periods.ts";
import { JobPolicies } from "./prices/job-policies.ts";
import { OfferBook } from "./prices/offer-book.ts";
import { PayableTokens } from "./prices/payable-tokens.ts";
import { PriceBook } from "./prices/price-book.ts";
import { PriceChecks } from "./prices/price-checks.ts";
import { answerPrice } from "./prices/price-route.ts";
import { QuoteBook } from "./prices/quote-book.ts";
import { JobUseTerms } from "./prices/use-terms.ts";
import { X402Producer } from "./producer.ts";
import { Checkout } from "./purchase/checkout.ts";
import { ClientLimits } from "./purchase/client-limits.ts";
import { EarlierPayments } from "./purchase/earlier-payments.ts";
import { InputChecks } from "./purchase/input-checks.ts";
import { Purchase } from "./purchase/purchase.ts";
import { Verification } from "./purchase/verification.ts";
import { callbackKeysRoute, x402Routes } from "./routes.ts";
import { ChainEvidence } from "./settlement/chain-evidence.ts";
import { Charges } from "./settlement/charges.ts";
import { PaymentsInProgress } from "./settlement/payments-in-progress.ts";
import { Reconciler } from "./settlement/reconciler.ts";
import { Settlement } from "./settlement/settlement.ts";
import { AccountContracts } from "./sign-in/account-contracts.ts";
import { SignIn } from "./sign-in/sign-in.ts";
import { X402Stats } from "./stats.ts";
import { IdentifierRule } from "./wire/payment-identifier.ts";

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
  readonly #facilitators: Facilitators;
  readonly #evidence: ChainEvidence;
  readonly #settlement: Settlement;
  readonly #inProgress = new PaymentsInProgress();
  readonly #reconciler: Reconciler;
  /** Charges of the jobs that are paid by use. */
  readonly charges: Charges;
  readonly #callWatch: CallWatch;
  readonly #tokens: AccessTokens;
  readonly #callEvents: CallEvents;
  readonly #signIn: SignIn;
  readonly #limits: ClientLimits;
  readonly #stats = new X402Stats();
  readonly #doors: Doors;
  readonly #cors: Cors;
  /** Routes at the current configuration. */
  #routes: RouteTable = () => undefined;
  /** Descriptions at the current configuration. */
  #described: { readonly descriptions: JobDescriptions; readonly quoteTtlSecs: number } | undefined;
  /** Jobs for sale at the current configuration. */
  #listing: Listing | undefined;
  /** Ways to pay a quote at the current configuration. */
  #quotePayment = (_quote: ReceivedQuote): Promise<QuotePayment | undefined> => Promise.resolve(undefined);

  constructor(options: X402GatewayOptions, periods: Partial<X402Periods> = {}) {
    const { config, store, logger, clock = systemClock, telemetry = NO_TELEMETRY } = options;
    const { facilitatorTimeoutMs: settleTimeoutMs, acceptedTokens: tokens } = config;
    const {
      rpcTimeoutMs,
      secondLookAfterMs,
      pendingLookMs,
      verifyPatienceMs,
      callPollMs,
      toolMs,
      longToolMs,
      confirmationTimeoutMs = settleTimeoutMs,
      ...reconciling
    } = { ...DEFAULT_PERIODS, ...periods };
    // A test that sets the clock controls durations too.
    const elapsed = options.clock ?? monotonicClock;
    this.#options = options;
    this.#clock = clock;
    this.#server = options.server ?? new HttpServer({ address: config.bindAddress, logger, telemetry });

    this.#rates = new RateBoard({ clock, logger });
    this.#offers = new OfferBook({ ledger: store, rates: this.#rates, clock, logger });
    this.#priceChecks = new PriceChecks({ rates: this.#rates, clock, logger });
    this.#quotes = new QuoteBook({ ledger: store, rates: this.#rates, checks: this.#priceChecks, clock });

    const callerChain = new CallerChain({ timeoutMs: rpcTimeoutMs, clock: elapsed, telemetry });
    this.#callerAuth = new CallerAuth({ chain: callerChain, journal: store, clock });

    this.#facilitators = new Facilitators({
      configs: config.facilitators,
      timeoutMs: settleTimeoutMs,
      verifyPatienceMs,
      readsSupported: tokens.some(({ transferMethod }) => transferMethod === "permit2"),
      local: options.localFacilitator,
      clock: elapsed,
      logger,
      telemetry,
    });
    this.#evidence = new ChainEvidence({ tokens, rpcTimeoutMs, secondLookAfterMs, telemetry });
    this.#settlement = new Settlement({
      journal: store,
      facilitators: this.#facilitators,
      evidence: this.#evidence,
      confirmationTimeoutMs,
      pendingLookMs,
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

    this.charges = new Charges(
      {
        journal: store,
        settlement: this.#settlement,
        events: options.events,
        roundMs: reconciling.roundMs,
        firstDelayMs: reconciling.firstDelayMs,
        elapsed,
        clock,
        logger,
      },
      config.settleMarginSecs,
    );

    this.#callWatch = new CallWatch({ calls: store, events: options.events, pollMs: callPollMs });
    this.#tokens = new AccessTokens(store);
    this.#limits = new ClientLimits(config);
    this.#doors = new Doors({
      callerAuth: this.#callerAuth,
      calls: store,
      watch: this.#callWatch,
      tokens: this.#tokens,
      limits: this.#limits,
      stats: this.#stats,
      clock,
      logger,
      telemetry,
      waits: { toolMs, longToolMs },
    });
    this.#cors = x402Cors(config);
    this.#callEvents = new CallEvents({ watch: this.#callWatch, clock: elapsed });
    this.#signIn = new SignIn({
      tokens: this.#tokens,
      nonces: store,
      contracts: new AccountContracts({ timeoutMs: rpcTimeoutMs, telemetry }),
      limits: this.#limits,
      publicUrl: config.publicUrl,
      clock,
    });
  }

  /** `host:port`, once started. */
  get address(): string {
    return this.#server.address;
  }

  async start(): Promise<void> {
    try {
      await this.#tokens.load();
      await this.reload(this.#options.config);
      await this.#facilitators.start();
      await this.#reconciler.start();
      await this.charges.start();
      await this.#server.mount(this.#find, { listener: "x402", cors: this.#cors, prefix: "/x402/" });
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /** Takes no new requests; resolves once the current ones are answered, settlements included. */
  async stop(): Promise<void> {
    // The jobs that clients wait for go on, so the clients are answered now.
    this.#callWatch.stop();
    await this.#server.unmount(this.#find);
    await this.charges.stop();
    await this.#reconciler.stop();
    await this.#facilitators.stop();
    this.#rates.stop();
  }

  /**
   * Applies new prices, tokens, policies and limits, and new secrets of the same facilitators. Offers made before stay
   * payable for their lifetime. The address stays as it was.
   */
  async reload(config: X402Config): Promise<void> {
    const { store, redeemsQuotes = false, callbackKeys } = this.#options;
    const { acceptedTokens: tokens, quoteTtlSecs, maxBodyBytes, publicUrl } = config;
    const [rates, limits, stats, clock] = [this.#rates, this.#limits, this.#stats, this.#clock];
    const receipts = await receiptSigner(config, clock);
    const inputs = await InputChecks.compile(config.jobs ?? []);
    this.#evidence.watch(tokens);
    this.#signIn.reload(config);
    this.#facilitators.reload(config.facilitators);
    await rates.watch(tokens);
    limits.reload(config);
    this.#cors.allow(requestsOfPages(config));

    this.charges.reload(config.settleMarginSecs);
    const useTerms = new JobUseTerms({ config, facilitators: this.#facilitators });
    const payable = new PayableTokens(tokens);
    const source = this.#priceChecks.payablePrices(
      createJobPrices({
        jobs: config.jobs ?? [],
        engine: this.#options.enginePrices,
        otherwise: this.#options.prices ?? createPriceMap(config.jobPricing),
      }),
      payable,
    );
    const policies = new JobPolicies(config, source);
    const prices = new PriceBook({
      policies,
      prices: source,
      offers: this.#offers,
      quotes: redeemsQuotes ? this.#quotes : undefined,
      tokens: payable,
      useTerms,
      refunds: config.refunds !== undefined,
      quoteTtlSecs,
      clock,
    });
    const identifiers = new IdentifierRule(config.jobs ?? []);
    const seller = sellerOf(config);
    const descriptions = new JobDescriptions({
      jobs: config.jobs ?? [],
      seller,
      identifiers,
      extensionsOf: (network) => this.#facilitators.extensionsOf(network),
      clock,
    });
    if (this.#described) descriptions.replaces(this.#described.descriptions, this.#described.quoteTtlSecs);
    this.#described = { descriptions, quoteTtlSecs };
    const verification = new Verification({
      facilitators: this.#facilitators,
      evidence: this.#evidence,
      descriptions,
      limits,
    });
    const purchase = new Purchase({
      callerAuth: this.#callerAuth,
      store,
      verification,
      settlement: this.#settlement,
      inProgress: this.#inProgress,
      identifiers,
      earlier: new EarlierPayments({ journal: store, tokens }),
      producer: new X402Producer(config),
      limits,
      stats,
      descriptions,
      undecidedLimits: config,
    });
    const listing = new Listing({
      config,
      policies,
      prices: source,
      isConfigured: ({ price }) => price !== "engine" && !(price === undefined && this.#options.prices),
      tokens: payable,
      rates,
      clock,
    });
    this.#listing = listing;
    const callbacks = callbackKeys && config.callbacks && new CallbackGuard(config.callbacks);
    const checkout = new Checkout({ prices, inputs, callbacks, purchase, limits, maxBodyBytes });
    const ofCalls = { calls: store, tokens: this.#tokens, signIn: this.#signIn, limits };
    this.#routes = x402Routes({
      ...this.#doors.open(config, {
        listing,
        checkout,
        descriptions,
        seller,
        receipts,
        prices,
        verification,
      }),
      price: (job) => answerPrice(job, { prices, tokens, rates, publicUrl, clock }),
      call: new CallRoute({ ...ofCalls, events: this.#callEvents, receipts }),
      payerCalls: new PayerCallsRoute({ ...ofCalls, payments: store, publicUrl }),
      catalogue: new CatalogueRoutes({ listing, seller }),
      documents: [
        ...(receipts ? [receipts.didRoute] : []),
        ...(callbackKeys ? [callbackKeysRoute(callbackKeys)] : []),
      ],
      stats,
    });
    const atThisConfig = { policies, tokens: payable.forWei, useTerms, quoteTtlSecs, publicUrl };
    this.#quotePayment = (quote) => this.#quotes.paymentFor(quote, atThisConfig);
  }

  /** Returns every token's rate, for the operator. */
  rates(): RateReport[] {
    return this.#rates.report();
  }

  /** Returns the jobs for sale, for the operator. */
  async jobs(): Promise<readonly ListedJob[]> {
    return (await this.#listing?.jobs()) ?? [];
  }

  /** Returns the ways to pay a quote of the pricing engine here; undefined when it cannot be paid. */
  quotePayment(quote: ReceivedQuote): Promise<QuotePayment | undefined> {
    return this.#quotePayment(quote);
  }

  readonly #find: RouteTable = (path) => this.#routes(path);
}

/** Makes the signer of offers and receipts, if one is configured. Only then is what it signs with loaded. */
async function receiptSigner({ receipts: config, publicUrl }: X402Config, clock: Clock) {
  if (config === undefined) return undefined;
  const { ReceiptSigner } = await import("./receipts/receipt-signer.ts");
  return new ReceiptSigner({ config, publicUrl, clock });
}
