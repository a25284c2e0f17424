import type { Logger } from "pino";
import { type Clock, systemClock } from "../clock.ts";
import type { PricingEngineConfig } from "../config/config.ts";
import { createEngineClient, type EngineClient } from "./engine-client.ts";
import { createEnginePrices } from "./engine-prices.ts";
import { createEngineQuotes } from "./engine-quotes.ts";
import type { PriceSource } from "./price-map.ts";
import { createProofMaker } from "./proof-maker.ts";

/** The operator's pricing engine, seen from here. */
export interface PricingEngineLink {
  readonly client: EngineClient;
  /** What jobs cost according to the engine. Absent when its quotes cannot be checked. */
  readonly prices?: PriceSource;
  stop(): Promise<void>;
}

export interface PricingEngineLinkOptions {
  readonly config: PricingEngineConfig;
  readonly logger: Logger;
  /** Default: the system's. */
  readonly clock?: Clock;
}

/** Connects when it is first needed. */
export function linkPricingEngine(options: PricingEngineLinkOptions): PricingEngineLink {
  const { config, logger, clock = systemClock } = options;
  const { url, signing, proofOfWorkBits } = config;
  const client = createEngineClient({ url });
  const proofs = createProofMaker({ difficulty: proofOfWorkBits, clock, logger });
  const quotes = signing && createEngineQuotes({ client, proofs, signing, clock });
  return {
    client,
    ...(quotes === undefined ? {} : { prices: createEnginePrices({ quotes, clock, logger }) }),
    async stop() {
      await proofs.stop();
      client.stop();
    },
  };
}
