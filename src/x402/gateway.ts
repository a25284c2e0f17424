import type { X402Config } from "../config/config.ts";
import type { BackgroundService } from "../core/background-service.ts";
import { CallbackGuard } from "../core/callbacks.ts";
import { type Clock, monotonicClock, systemClock } from "../core/clock.ts";
import type { Cors } from "../http/cors.ts";
import type { RouteTable } from "../http/routes.ts";
import { HttpServer } from "../http/server.ts";
import { NO_TELEMETRY } from "../telemetry/telemetry.ts";
import { CallerAuth } from "./callers/caller-auth.ts";
import { CallerChain } from "./callers/chain.ts";
import { AccessTokens } from "./calls/access-tokens.ts";
import { CallRoute } from "./calls/call-route.ts";
import { CallEvents } from "./calls/events.ts";
import { PayerCallsRoute } from "./calls/payer-calls-route.ts";
import { WaitPlaces } from "./calls/wait-places.ts";
import { CallWatch } from "./calls/watch.ts";
import { bazaarExtension } from "./catalogue/bazaar.ts";
import { CatalogueRoutes } from "./catalogue/catalogue-routes.ts";
import { requestsOfPages, x402Cors } from "./cors.ts";
import { Doors } from "./doors/doors.ts";
import type { X402GatewayOptions } from "./gateway-options.ts";
import { JobDescriptions } from "./jobs/job-descriptions.ts";
import { type ListedJob, Listing } from "./jobs/listing.ts";
import { sellerOf } from "./jobs/seller.ts";
import { Payments } from "./payments.ts";
import { DEFAULT_PERIODS, type X402Periods } from "./periods.ts";
import { answerPrice } from "./prices/price-route.ts";
import { Prices } from "./prices/prices.ts";
import type { QuotePayment, ReceivedQuote } from "./prices/quotes.ts";
import type { RateReport } from "./prices/token-rates.ts";
import { X402Producer } from "./producer.ts";
import { AdoptedPayments } from "./purchase/adopted-payments.ts";
import { BodyChecks } from "./purchase/body-checks.ts";
import { Checkout } from "./purchase/checkout.ts";
import { ClientLimits } from "./purchase/client-limits.ts";
import { EarlierPayments } from "./purchase/earlier-payments.ts";
import { ExtensionEchoes } from "./purchase/extension-echoes.ts";
import { InputChecks } from "./purchase/input-checks.ts";
import { chargedNothing } from "./purchase/payment-answer.ts";
import { Purchase } from "./purchase/purchase.ts";
import { RefusedPayments } from "./purchase/refused-payments.ts";
import { Verification } from "./purchase/verification.ts";
import { callbackKeysRoute, x402Routes } from "./routes.ts";
import type { Charges } from "./settlement/charges.ts";
import { AccountContracts } from "./sign-in/account-contracts.ts";
import { SignIn } from "./sign-in/sign-in.ts";
import { X402Stats } from "./stats.ts";
import { IdentifierRule } from "./wire/payment-identifier.ts";

/** HTTP service that sells runs of jobs for x402 payments. */
export class X402Gateway implements BackgroundService {
  readonly #options: X402GatewayOptions;
  readonly #clock: Clock;
  readonly #server: HttpServer;
  readonly #payments: Payments;
  readonly #prices: Prices;
  readonly #callerAuth: CallerAuth;
  readonly #callWatch: CallWatch;
  readonly #tokens: AccessTokens;
  readonly #callEvents: CallEvents;
  readonly #signIn: SignIn;
  readonly #limits: ClientLimits;
  readonly #bodies: BodyChecks;
  readonly #refused: RefusedPayments;
  readonly #stats = new X402Stats();
  readonly #doors: Doors;
  readonly #cors: Cors;
  /** Routes at the current configuration. */
  #routes: RouteTable = () => undefined;
  /** Declared extensions at the current configuration. */
  #declared: { readonly echoes: ExtensionEchoes; readonly quoteTtlSecs: number } | undefined;
  /** Jobs for sale at the current configuration. */
  #listing: Listing | undefined;

  constructor(options: X402GatewayOptions, periods: Partial<X402Periods> = {}) {
    const { config, store, logger, clock = systemClock, telemetry = NO_TELEMETRY } = options;
    const allPeriods = { ...DEFAULT_PERIODS, ...periods };
    const { rpcTimeoutMs, callPollMs, toolMs, longToolMs } = allPeriods;
    // A test that sets the clock controls durations too.
    const elapsed = options.clock ?? monotonicClock;
    this.#options = options;
    this.#clock = clock;
    this.#server = options.server ?? new HttpServer({ address: config.bindAddress, logger, telemetry });
    this.#bodies = new BodyChecks(elapsed);
    const onAccepted = () => this.#stats.count("accepted");
    this.#payments = new Payments({ ...options, clock, elapsed, telemetry, onAccepted }, allPeriods);
    this.#prices = new Prices({ ...options, facilitators: this.#payments.facilitators, clock });

    const callerChain = new CallerChain({ timeoutMs: rpcTimeoutMs, clock: elapsed, telemetry });
    this.#callerAuth = new CallerAuth({ chain: callerChain, journal: store, clock });

    this.#callWatch = new CallWatch({ calls: store, events: options.events, pollMs: callPollMs });
    this.#tokens = new AccessTokens(store);
    const places = new WaitPlaces();
    this.#limits = new ClientLimits(config);
    this.#refused = new RefusedPayments({ log: store, telemetry, clock, logger });
    this.#doors = new Doors({
      callerAuth: this.#callerAuth,
      calls: store,
      watch: this.#callWatch,
      places,
      tokens: this.#tokens,
      limits: this.#limits,
      refused: this.#refused,
      stats: this.#stats,
      clock,
      logger,
      telemetry,
      waits: { toolMs, longToolMs },
    });
    this.#cors = x402Cors(config);
    this.#callEvents = new CallEvents({ watch: this.#callWatch, places, clock: elapsed });
    this.#signIn = new SignIn({
      tokens: this.#tokens,
      nonces: store,
      contracts: new AccountContracts({ timeoutMs: rpcTimeoutMs, telemetry }),
      limits: this.#limits,
      publicUrl: config.publicUrl,
      clock,
    });
  }

  /** Charges of the jobs that are paid by use. */
  get charges(): Charges {
    return this.#payments.charges;
  }

  /** `host:port`, once started. */
  get address(): string {
    return this.#server.address;
  }

  async start(): Promise<void> {
    try {
      await this.#tokens.load();
      await this.reload(this.#options.config);
      await this.#payments.start();
      await this.#refused.start();
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
    this.#callWatch.stop();
    await this.#server.unmount(this.#find);
    await this.#bodies.stop();
    await this.#payments.stop();
    await this.#refused.stop();
    this.#prices.rates.stop();
  }

  /**
   * Applies new prices, tokens, policies and limits, and new secrets of the same facilitators. Offers made before stay
   * payable for their lifetime. The address stays as it was.
   */
  async reload(config: X402Config): Promise<void> {
    const { store, callbackKeys } = this.#options;
    const { acceptedTokens: tokens, jobs = [], quoteTtlSecs, maxBodyBytes, publicUrl } = config;
    const { rates } = this.#prices;
    const { facilitators, evidence, funds, settlement, inProgress } = this.#payments;
    const [limits, stats, clock] = [this.#limits, this.#stats, this.#clock];
    const receipts = await receiptSigner(config, clock);
    const inputs = await InputChecks.compile(jobs, { bodies: this.#bodies, limits });
    this.#payments.reload(config);
    this.#signIn.reload(config);
    await rates.watch(tokens);
    limits.reload(config);
    this.#cors.allow(requestsOfPages(config));
    const { book: prices, source, policies, tokens: payable, useTerms } = this.#prices.reload(config);

    const identifiers = new IdentifierRule(jobs);
    const seller = sellerOf(config);
    const descriptions = new JobDescriptions({
      jobs,
      seller,
      declares: [bazaarExtension, (job) => ({ extensions: identifiers.declaration(job) })],
      extensionsOf: (network) => facilitators.extensionsOf(network),
    });
    const echoes = new ExtensionEchoes({ declared: (job) => descriptions.of(job).extensions, clock });
    if (this.#declared) echoes.replaces(this.#declared.echoes, this.#declared.quoteTtlSecs);
    this.#declared = { echoes, quoteTtlSecs };
    const verification = new Verification({ facilitators, evidence, funds, descriptions, limits });
    const purchase = new Purchase({
      callerAuth: this.#callerAuth,
      store,
      verification,
      settlement,
      inProgress,
      identifiers,
      adopted: new AdoptedPayments({ ledger: store, verification }),
      earlier: new EarlierPayments({ journal: store, tokens }),
      producer: new X402Producer(config),
      stats,
      echoes,
      undecidedLimits: config,
    });
    const listing = new Listing({
      config,
      policies,
      prices: source,
      isConfigured: ({ price }) => price !== "engine" && !(price === undefined && this.#options.prices),
      tokens: payable,
      useTerms,
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
      documents: [
        ...new CatalogueRoutes({ listing, seller }).all,
        ...(receipts ? [receipts.didRoute] : []),
        ...(callbackKeys ? [callbackKeysRoute(callbackKeys)] : []),
      ],
      stats,
    });
  }

  /** Returns every token's rate, for the operator. */
  rates(): RateReport[] {
    return this.#prices.rates.report();
  }

  /** Returns the jobs for sale, for the operator. */
  async jobs(): Promise<readonly ListedJob[]> {
    return (await this.#listing?.jobs()) ?? [];
  }

  /** Returns the ways to pay a quote of the pricing engine here; undefined when it cannot be paid. */
  quotePayment(quote: ReceivedQuote): Promise<QuotePayment | undefined> {
    return this.#prices.quotePayment(quote);
  }

  readonly #find: RouteTable = (path) => this.#routes(path);
}

/** Makes the signer of offers and receipts, if one is configured. Only then is what it signs with loaded. */
async function receiptSigner({ receipts: config, publicUrl }: X402Config, clock: Clock) {
  if (config === undefined) return undefined;
  const { ReceiptSigner } = await import("./receipts/receipt-signer.ts");
  return new ReceiptSigner({ config, publicUrl, clock });
}
