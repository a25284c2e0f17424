import type { X402Config } from "../config/config.ts";
import type { BackgroundService } from "../core/background-service.ts";
import type { Clock } from "../core/clock.ts";
import type { Telemetry } from "../core/telemetry.ts";
import type { Facilitators, FacilitatorsOptions, OpenFacilitators } from "./facilitators/facilitators.ts";
import { OneFacilitator } from "./facilitators/one-facilitator.ts";
import type { X402GatewayOptions, X402Periods } from "./gateway-options.ts";
import type { Methods } from "./methods/methods.ts";
import { ChainEvidence } from "./settlement/chain-evidence.ts";
import { Charges } from "./settlement/charges.ts";
import { PayerFunds } from "./settlement/payer-funds.ts";
import { PaymentsInProgress } from "./settlement/payments-in-progress.ts";
import { Reconciler } from "./settlement/reconciler.ts";
import { Settlement } from "./settlement/settlement.ts";
import type { X402Stats } from "./stats.ts";

interface Parts
  extends Pick<
    X402GatewayOptions,
    "config" | "store" | "events" | "localFacilitator" | "openFacilitators" | "logger"
  > {
  readonly methods: Methods;
  readonly clock: Clock;
  /** Measures durations. */
  readonly elapsed: Clock;
  readonly telemetry: Telemetry;
  readonly stats: X402Stats;
}

type Periods = Omit<X402Periods, "confirmationTimeoutMs"> &
  Partial<Pick<X402Periods, "confirmationTimeoutMs">>;

/** Verifies, settles and reconciles payments, and charges the jobs that are charged after they ran. */
export class Payments implements BackgroundService {
  readonly facilitators: Facilitators;
  readonly evidence: ChainEvidence;
  readonly funds: PayerFunds;
  readonly settlement: Settlement;
  readonly inProgress = new PaymentsInProgress();
  /** Charges of the jobs that are charged after they ran. */
  readonly charges: Charges;
  readonly #reconciler: Reconciler;

  constructor(parts: Parts, periods: Periods) {
    const { config, store: journal, events, localFacilitator, clock, elapsed, logger, telemetry } = parts;
    const { methods, stats } = parts;
    const { facilitatorTimeoutMs: settleTimeoutMs, acceptedTokens: tokens, settleMarginSecs } = config;
    const { rpcTimeoutMs, secondLookAfterMs, pendingLookMs, verifyPatienceMs } = periods;
    const { roundMs, firstDelayMs, slowRoundMs, confirmationTimeoutMs = settleTimeoutMs } = periods;
    const { inProgress } = this;

    const facilitators = openFacilitators(parts.openFacilitators, {
      configs: config.facilitators,
      timeoutMs: settleTimeoutMs,
      verifyPatienceMs,
      readsSupported: tokens.some(({ transferMethod }) => methods.dependsOnFacilitators(transferMethod)),
      methods,
      inProcess: localFacilitator,
      clock: elapsed,
      logger,
      telemetry,
    });
    const evidence = new ChainEvidence({ methods, tokens, rpcTimeoutMs, secondLookAfterMs, telemetry });
    const funds = new PayerFunds({ methods, evidence });
    const looks = { confirmationTimeoutMs, pendingLookMs };
    const settlement = new Settlement({
      journal,
      facilitators,
      evidence,
      ...looks,
      clock,
      elapsed,
      logger,
      telemetry,
      stats,
    });
    const rounds = { roundMs, firstDelayMs };
    this.#reconciler = new Reconciler({
      journal,
      settlement,
      evidence,
      settleTimeoutMs,
      inProgress,
      ...rounds,
      slowRoundMs,
      clock: elapsed,
      wallClock: clock,
      logger,
    });
    this.charges = new Charges({
      ...{ journal, settlement, funds, methods, events, ...rounds, elapsed, clock, logger },
      settleMarginSecs,
    });
    this.facilitators = facilitators;
    this.evidence = evidence;
    this.funds = funds;
    this.settlement = settlement;
  }

  async start(): Promise<void> {
    await this.facilitators.start();
    await this.#reconciler.start();
    await this.charges.start();
  }

  async stop(): Promise<void> {
    await this.charges.stop();
    await this.#reconciler.stop();
    await this.facilitators.stop();
  }

  reload(config: X402Config): void {
    this.evidence.watch(config.acceptedTokens);
    this.facilitators.reload(config.facilitators);
    this.charges.reload(config.settleMarginSecs);
  }
}

/** @throws Error when there are several facilitators, and no part opens them */
function openFacilitators(several: OpenFacilitators | undefined, options: FacilitatorsOptions): Facilitators {
  const [first, ...others] = options.configs;
  if (first !== undefined && others.length === 0) return new OneFacilitator(first, options);
  if (several !== undefined) return several(options);
  throw new Error(
    `this build has no failover between facilitators; expected one, not ${options.configs.length}`,
  );
}
