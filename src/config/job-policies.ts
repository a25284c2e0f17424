import * as z from "zod";
import { type Checked, type Complete, required } from "./check-shape.ts";
import { address, integer, oneOf, u32, u64 } from "./value-types.ts";
import { httpUrl } from "./web-types.ts";
import { needs } from "./wrong-value.ts";

export const invocationMode = () =>
  needs(
    {
      abilityFor: (mode) => (mode === "restricted_paid" ? "restricted jobs" : undefined),
      otherwise: '"public_paid" or "disabled"',
    },
    oneOf(["disabled", "public_paid", "restricted_paid"]),
  );

/** Keys of a restricted job, spelled alike in `[[jobs]]`. */
export const restrictionKeys = {
  authMode: oneOf(["payer_is_caller", "delegated_caller_signature"]).optional(),
  chainRpcUrl: httpUrl().optional(),
  chainContract: address().optional(),
  /** Time for which a permission found on the chain is reused; with 0, every request queries the chain. */
  permissionCacheSecs: integer(0, 86_400).default(0),
};

export const jobPolicySchema = z.object({
  serviceId: u64(),
  jobIndex: u32(),
  invocationMode: invocationMode(),
  ...restrictionKeys,
  /** Name of `chainRpcUrl` in files for the SDK. */
  tangleRpcUrl: httpUrl().optional(),
  /** Name of `chainContract` in files for the SDK. */
  tangleContract: address().optional(),
});

export type PolicyTable = Checked<z.output<typeof jobPolicySchema>>;
type PolicyOutput = Complete<z.output<typeof jobPolicySchema>>;

export interface JobPolicy extends Pick<PolicyOutput, "serviceId" | "jobIndex" | "invocationMode"> {
  /** Present if and only if the mode is `restricted_paid`. */
  readonly restriction?: JobRestriction;
}
export type JobRestriction = Complete<ReturnType<typeof toRestriction>>;

/** Completes a policy without mistakes. */
export function toPolicy(policy: PolicyOutput): JobPolicy {
  const { serviceId, jobIndex, invocationMode } = policy;
  const job = { serviceId, jobIndex, invocationMode };
  return invocationMode === "restricted_paid" ? { ...job, restriction: toRestriction(policy) } : job;
}

function toRestriction({ authMode, permissionCacheSecs, ...policy }: PolicyOutput) {
  return {
    authMode: required(authMode),
    chainRpcUrl: required(policy.chainRpcUrl ?? policy.tangleRpcUrl),
    chainContract: required(policy.chainContract ?? policy.tangleContract),
    permissionCacheSecs,
  };
}
