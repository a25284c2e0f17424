import type { Logger } from "pino";
import { RECOVERY_LIBRARY } from "../chain/recover-address.ts";
import type { X402Config } from "../config/config.ts";
import type { BackgroundService } from "../core/background-service.ts";
import { type Clock, monotonicClock, systemClock } from "../core/clock.ts";
import { NO_TELEMETRY, type Telemetry } from "../core/telemetry.ts";
import type { Store } from "../store/store.ts";
import { AccessTokens } from "./calls/access-tokens.ts";
import { CallEvents } from "./calls/events.ts";
import { ResultWaits } from "./calls/wait-for-result.ts";
import { WaitPlaces } from "./calls/wait-places.ts";
import { CallWatch } from "./calls/watch.ts";
import { DEFAULT_PERIODS, type X402GatewayOptions, type X402Periods } from "./gateway-options.ts";
import { Methods } from "./methods/methods.ts";
import { Payments } from "./payments.ts";
import { Prices } from "./prices/prices.ts";
import { ClientLimits } from "./purchase/client-limits.ts";
import { BodyChecks } from "./purchase/input-checks.ts";
import { RefusedPayments } from "./purchase/refused-payments.ts";
import { X402Stats } from "./stats.ts";

/** Services that the gateway keeps through all reloads. */
export class Services implements BackgroundService {
  readonly store: Store;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
  readonly clock: Clock;
  /** Monotonic clock, for durations. */
  readonly elapsed: Clock;
  readonly periods: Omit<X402Periods, "confirmationTimeoutMs">;
  readonly stats = new X402Stats();
  readonly methods: Methods;
  readonly payments: Payments;
  readonly prices: Prices;
  readonly tokens: AccessTokens;
  readonly watch: CallWatch;
  /** Places of the clients that wait for calls. */
  readonly places = new WaitPlaces();
  readonly waits: ResultWaits;
  readonly callEvents: CallEvents;
  readonly limits: ClientLimits;
  readonly bodies: BodyChecks;
  readonly refused: RefusedPayments;

  constructor(options: X402GatewayOptions, periods: Partial<X402Periods>) {
    const { config, store, logger, events, clock = systemClock, telemetry = NO_TELEMETRY } = options;
    const { methods = new Methods() } = options;
    const allPeriods = { ...DEFAULT_PERIODS, ...periods };
    const { callPollMs } = allPeriods;
    // If a test sets the clock, that clock also measures durations.
    const elapsed = options.clock ?? monotonicClock;
    this.store = store;
    this.logger = logger;
    this.telemetry = telemetry;
    this.clock = clock;
    this.elapsed = elapsed;
    this.periods = allPeriods;
    this.methods = methods;
    this.payments = new Payments(
      { ...options, methods, clock, elapsed, telemetry, stats: this.stats },
      allPeriods,
    );
    const { facilitators, evidence } = this.payments;
    this.tokens = new AccessTokens(store);
    this.prices = new Prices({ ...options, methods, facilitators, evidence, seals: this.tokens, clock });
    this.watch = new CallWatch({ calls: store, events, pollMs: callPollMs });
    this.waits = new ResultWaits({ calls: store, watch: this.watch, places: this.places, logger });
    this.callEvents = new CallEvents({ watch: this.watch, places: this.places, clock: elapsed });
    this.limits = new ClientLimits(config);
    this.bodies = new BodyChecks(elapsed);
    this.refused = new RefusedPayments({ log: store, telemetry, clock, logger });
  }

  async start(): Promise<void> {
    this.logger.info({ library: RECOVERY_LIBRARY }, "signature recovery");
    await this.payments.start();
    await this.refused.start();
  }

  async stop(): Promise<void> {
    await this.bodies.stop();
    await this.payments.stop();
    await this.refused.stop();
    this.prices.rates.stop();
  }

  async reload(config: X402Config): Promise<void> {
    // This is the first step, because it refuses live rates that no watcher watches.
    await this.prices.rates.watch(config.acceptedTokens);
    this.payments.reload(config);
    this.limits.reload(config);
  }
}
