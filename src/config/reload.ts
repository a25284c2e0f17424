import { isDeepStrictEqual } from "node:util";
import type { Config, WebhooksConfig, X402Config } from "./config.ts";
import { fileKey } from "./key-path.ts";

/**
 * Keys that need a restart: sockets, files and settings that runners rely on cannot change while jobgate runs. A reload
 * changes every other key of the two gateways. It neither adds nor removes a gateway.
 */
const NEEDS_RESTART = {
  tables: ["serviceId", "store", "runner", "operator", "pricingEngine"],
  x402: ["bindAddress", "facilitatorUrl", "facilitatorTimeoutMs", "priceSource"],
  webhooks: ["bindAddress"],
} as const satisfies {
  readonly tables: readonly (keyof Config)[];
  readonly x402: readonly (keyof X402Config)[];
  readonly webhooks: readonly (keyof WebhooksConfig)[];
};

/** Returns the configuration in effect after a reload. */
export function afterReload(running: Config, next: Config): Config {
  const { x402, webhooks } = running;
  return {
    ...running,
    ...(x402 && next.x402 && { x402: x402AfterReload(x402, next.x402) }),
    ...(webhooks &&
      next.webhooks && { webhooks: { ...next.webhooks, ...pick(webhooks, NEEDS_RESTART.webhooks) } }),
  };
}

function x402AfterReload(running: X402Config, next: X402Config): X402Config {
  const reloaded = { ...next, ...pick(running, NEEDS_RESTART.x402) };
  // The prices of a file are checked for its own price source only.
  return next.priceSource === running.priceSource
    ? reloaded
    : { ...reloaded, jobPricing: running.jobPricing };
}

/** Returns the changed tables and keys that a reload ignores, as the file spells them. */
export function changesThatNeedRestart(running: Config, next: Config): string[] {
  const changed = changedKeys(running, next, NEEDS_RESTART.tables);
  const x402 = changedKeys(running.x402, next.x402, NEEDS_RESTART.x402);
  const webhooks = changedKeys(running.webhooks, next.webhooks, NEEDS_RESTART.webhooks);
  if ((running.x402 === undefined) !== (next.x402 === undefined)) changed.push("x402");
  changed.push(...x402.map((key) => `x402.${key}`));
  if ((running.webhooks === undefined) !== (next.webhooks === undefined)) changed.push("webhooks");
  changed.push(...webhooks.map((key) => `webhooks.${key}`));
  if (running.x402 && next.x402 && x402.includes("price_source")) changed.push("job_pricing");
  return changed;
}

function changedKeys<T extends object>(
  running: T | undefined,
  next: T | undefined,
  keys: readonly (keyof T & string)[],
): string[] {
  return keys.filter((key) => !isDeepStrictEqual(running?.[key], next?.[key])).map(fileKey);
}

function pick<T extends object, K extends keyof T>(from: T, keys: readonly K[]): Pick<T, K> {
  return Object.fromEntries(keys.map((key) => [key, from[key]])) as Pick<T, K>;
}
