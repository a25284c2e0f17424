import { serviceIdOf } from "../../config/config.ts";
import { ConfigTable, type TableContext } from "../../config/config-table.ts";
import type { Place } from "../../config/mistakes.ts";
import { type PlacedToken, tokensOf } from "../../config/rules/x402.ts";
import { jobKeyText } from "../../core/job-call.ts";

/** The check of restricted jobs in `[x402]`, whose keys are the core's. */
export const callersTable = ConfigTable.of({
  in: ["x402"],
  keys: {},
  check: (_, context) => checkCallers(context),
  complete: () => undefined,
});

/** Checks that each restricted job is sold in a token whose payers a contract can permit. */
function checkCallers({ tables, mistakes }: TableContext): void {
  const { jobs = [], x402, methods } = tables;
  if (x402?.acceptedTokens === undefined) return;
  // A token with a mistake may be on an EVM chain.
  const mayBeOfCaller = ([token, place]: PlacedToken) => {
    const { network } = token ?? {};
    return (
      network === undefined || place.hasMistake || !methods.some(({ networks }) => networks?.has(network))
    );
  };
  const check = (name: string | undefined, place: Place) => {
    const tokens = tokensOf({ name }, x402, mistakes.at("x402", "accepted_tokens"));
    if (place.isReported || tokens.length === 0 || tokens.some(mayBeOfCaller)) return;
    place.report(
      'is "restricted_paid", and a contract permits accounts of EVM chains alone; expected an accepted token on an EVM chain',
    );
  };
  const names = new Map<string, string | undefined>();
  for (const [i, job] of jobs.entries()) {
    if (job === undefined) continue;
    const { name, mode, jobIndex, serviceId = serviceIdOf(tables) } = job;
    if (jobIndex !== undefined) names.set(jobKeyText(serviceId, jobIndex), name);
    if (mode === "restricted_paid") check(name, mistakes.at("jobs", i, "mode"));
  }
  for (const [i, policy] of (x402.jobPolicies ?? []).entries()) {
    const { invocationMode, serviceId, jobIndex } = policy ?? {};
    if (invocationMode !== "restricted_paid" || serviceId === undefined || jobIndex === undefined) continue;
    const place = mistakes.at("x402", "job_policies", i, "invocation_mode");
    check(names.get(jobKeyText(serviceId, jobIndex)), place);
  }
}
