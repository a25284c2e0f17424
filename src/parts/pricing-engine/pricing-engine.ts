import type { Logger } from "pino";
import { type Clock, monotonicClock, systemClock } from "../../core/clock.ts";
import { NO_TELEMETRY, type Telemetry } from "../../core/telemetry.ts";
import type { PriceSource } from "../../x402/prices/price-source.ts";
import type { PricingEngineConfig } from "./config.ts";
import { EngineClient } from "./engine-client.ts";
import { EnginePrices } from "./engine-prices.ts";
import { EngineQuotes } from "./engine-quotes.ts";
import { ProofMaker } from "./proof-maker.ts";

/** The operator's pricing engine, which jobgate is a client of. Connects when it is first used. */
export class PricingEngine {
  readonly client: EngineClient;
  /** Present when quotes can be checked (`config.signing`). */
  readonly prices?: PriceSource & { stop(): void };
  /** Set together with {@link prices}. */
  readonly quotes?: EngineQuotes;
  readonly #proofs: ProofMaker | undefined;

  /** @param parts `isKnownService` names services whose proofs of work go first; `maxWaitMs` bounds a request's wait for a
   * price */
  constructor(parts: {
    readonly config: PricingEngineConfig;
    readonly isKnownService?: (serviceId: bigint) => boolean;
    readonly logger: Logger;
    readonly clock?: Clock;
    /** Measures durations. */
    readonly elapsed?: Clock;
    readonly telemetry?: Telemetry;
    readonly maxWaitMs?: number;
  }) {
    const { config, isKnownService, logger, clock = systemClock, telemetry = NO_TELEMETRY } = parts;
    const { elapsed = monotonicClock, maxWaitMs } = parts;
    const { url, signing, proofOfWorkBits } = config;
    this.client = new EngineClient(url, telemetry);
    if (signing === undefined) return;
    this.#proofs = new ProofMaker({ difficulty: proofOfWorkBits, isKnownService, clock, logger });
    this.quotes = new EngineQuotes({ client: this.client, proofs: this.#proofs, signing, clock });
    this.prices = new EnginePrices({ quotes: this.quotes, clock, elapsed, logger, maxWaitMs });
  }

  /** Ends calls in progress and the thread that makes proofs. */
  async stop(): Promise<void> {
    this.prices?.stop();
    this.client.stop();
    await this.#proofs?.stop();
  }
}
