import type { Config, X402Config } from "./config.ts";

/** What holds after a reload: addresses, the facilitator and where prices come from stay. */
export function afterReload(running: Config, next: Config): Config {
  const { x402, webhooks } = running;
  return {
    ...running,
    ...(x402 && next.x402 ? { x402: x402After(x402, next.x402) } : {}),
    ...(webhooks && next.webhooks
      ? { webhooks: { ...next.webhooks, bindAddress: webhooks.bindAddress } }
      : {}),
  };
}

function x402After(running: X402Config, next: X402Config): X402Config {
  const { bindAddress, facilitatorUrl, facilitatorTimeoutMs, priceSource } = running;
  // Prices of a file were checked for the price source that it names: with another one running, they do not count.
  const { jobPricing } = next.priceSource === priceSource ? next : running;
  return { ...next, bindAddress, facilitatorUrl, facilitatorTimeoutMs, priceSource, jobPricing };
}
