import type { JobPolicy } from "../../config/config.ts";

/** Returns the services that a configuration names: its own, those with an enabled job, those with a price. */
export function knownServices({
  serviceId,
  x402,
}: {
  readonly serviceId: bigint;
  readonly x402?: {
    readonly jobPolicies: readonly JobPolicy[];
    readonly jobs?: readonly { readonly serviceId: bigint }[];
    /** Keys are `service/job`. */
    readonly jobPricing: ReadonlyMap<string, unknown>;
  };
}): ReadonlySet<bigint> {
  const enabled = (x402?.jobPolicies ?? []).filter(({ invocationMode }) => invocationMode !== "disabled");
  const priced = [...(x402?.jobPricing.keys() ?? [])].map((job) => BigInt(job.slice(0, job.indexOf("/"))));
  const described = (x402?.jobs ?? []).map((job) => job.serviceId);
  return new Set([serviceId, ...enabled.map((policy) => policy.serviceId), ...priced, ...described]);
}
