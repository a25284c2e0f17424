import { isDeepStrictEqual } from "node:util";
import type { Config } from "./config.ts";

/**
 * The tables and keys that changed but that a reload does not take over: prices, rates, policies and endpoints
 * can change while jobgate runs, sockets, files and what runners rely on cannot.
 */
export function changesThatNeedRestart(running: Config, next: Config): string[] {
  const before = fixedParts(running);
  const after = fixedParts(next);
  const changed = Object.keys(before).filter((name) => !isDeepStrictEqual(before[name], after[name]));
  // With another price source running, what the file says of prices does not count either.
  return running.x402 && next.x402 && changed.includes("x402.price_source")
    ? [...changed, "job_pricing"]
    : changed;
}

function fixedParts(config: Config): Record<string, unknown> {
  const { x402, webhooks } = config;
  return {
    service_id: config.serviceId,
    store: config.store,
    runner: config.runner,
    operator: config.operator,
    x402: x402 !== undefined,
    "x402.bind_address": x402?.bindAddress,
    "x402.facilitator_url": x402?.facilitatorUrl,
    "x402.facilitator_timeout_secs": x402?.facilitatorTimeoutMs,
    "x402.price_source": x402?.priceSource,
    webhooks: webhooks !== undefined,
    "webhooks.bind_address": webhooks?.bindAddress,
    pricing_engine: config.pricingEngine,
  };
}
