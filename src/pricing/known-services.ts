import type { Config } from "../config/config.ts";

/** The services that the operator's configuration names: its own, those with a job for sale, those with a price. */
export function knownServices({ serviceId, x402 }: Pick<Config, "serviceId" | "x402">): ReadonlySet<bigint> {
  const forSale = (x402?.jobPolicies ?? []).filter(({ invocationMode }) => invocationMode !== "disabled");
  const priced = [...(x402?.jobPricing.keys() ?? [])].map((job) => BigInt(job.slice(0, job.indexOf("/"))));
  return new Set([serviceId, ...forSale.map((policy) => policy.serviceId), ...priced]);
}
