import { isDeepStrictEqual } from "node:util";
import type { Config, X402Config } from "./config.ts";

/**
 * The tables and keys that changed but that a reload does not take over: prices, rates, policies and endpoints
 * can change while jobgate runs, sockets, files and what runners rely on cannot.
 */
export function changesThatNeedRestart(running: Config, next: Config): string[] {
  const before = fixedParts(running);
  const after = fixedParts(next);
  const changed = Object.keys(before).filter((name) => !isDeepStrictEqual(before[name], after[name]));
  return running.x402 && next.x402 && !keepsPriceSource(running.x402, next.x402)
    ? [...changed, "job_pricing"]
    : changed;
}

/** What holds after a reload: addresses, the facilitator and where prices come from stay. */
export function afterReload(running: Config, next: Config): Config {
  const { x402, webhooks } = running;
  return {
    ...running,
    ...(x402 && next.x402
      ? {
          x402: {
            ...next.x402,
            bindAddress: x402.bindAddress,
            facilitatorUrl: x402.facilitatorUrl,
            facilitatorTimeoutMs: x402.facilitatorTimeoutMs,
            priceSource: x402.priceSource,
            jobPricing: keepsPriceSource(x402, next.x402) ? next.x402.jobPricing : x402.jobPricing,
          },
        }
      : {}),
    ...(webhooks && next.webhooks
      ? { webhooks: { ...next.webhooks, bindAddress: webhooks.bindAddress } }
      : {}),
  };
}

/** Prices of a file were checked for the price source that it names: with another one running, they do not count. */
function keepsPriceSource(running: X402Config, next: X402Config): boolean {
  return running.priceSource === next.priceSource;
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
