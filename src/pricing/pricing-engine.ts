import type { Logger } from "pino";
import type { PricingEngineConfig } from "../config/config.ts";
import { type Clock, systemClock } from "../core/clock.ts";
import { NO_TELEMETRY, type Telemetry } from "../telemetry/telemetry.ts";
import { createEngineClient, type EngineClient } from "./engine-client.ts";
import { createEnginePrices } from "./engine-prices.ts";
import { createEngineQuotes } from "./engine-quotes.ts";
import { measureEngineClient } from "./measured-engine-client.ts";
import type { PriceSource } from "./price-map.ts";
import { createProofMaker } from "./proof-maker.ts";

export interface PricingEngineOptions {
  readonly config: PricingEngineConfig;
  /** Services that come first where proofs of work have to wait. Default: those that the engine has quoted. */
  readonly isKnownService?: (serviceId: bigint) => boolean;
  readonly logger: Logger;
  /** Default: the system's. */
  readonly clock?: Clock;
  /** Is told of every call. Default: nobody is. */
  readonly telemetry?: Telemetry;
}

/** The operator's pricing engine, as far as jobgate is its client. Nothing is opened before it is needed. */
export interface PricingEngine {
  readonly client: EngineClient;
  /** Present when quotes can be checked (`config.signing`). */
  readonly prices?: PriceSource;
  /** Ends calls in hand and the thread that makes proofs. */
  stop(): Promise<void>;
}

export function createPricingEngine(options: PricingEngineOptions): PricingEngine {
  const { config, isKnownService, logger, clock = systemClock, telemetry = NO_TELEMETRY } = options;
  const { url, signing, proofOfWorkBits } = config;
  const client = measureEngineClient(createEngineClient({ url }), telemetry);
  if (signing === undefined) return { client, stop: async () => client.stop() };
  const proofs = createProofMaker({
    difficulty: proofOfWorkBits,
    ...(isKnownService === undefined ? {} : { isKnownService }),
    clock,
    logger,
  });
  const quotes = createEngineQuotes({ client, proofs, signing, clock });
  return {
    client,
    prices: createEnginePrices({ quotes, clock, logger }),
    async stop() {
      client.stop();
      await proofs.stop();
    },
  };
}
