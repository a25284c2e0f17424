import { Rpc } from "../../chain/rpc.ts";
import type { JobPolicy, PeerProblem, X402Config } from "../../config/config.ts";
import { hasContract, unanswered } from "../../x402/online-check.ts";

/** Longest time to wait for one answer. */
const MAX_TIMEOUT_MS = 10_000;

/** Checks that each restricted job has a contract that decides about its callers. */
export async function checkContracts(config: X402Config): Promise<PeerProblem[]> {
  const found = config.jobPolicies.map((policy, i) => policyProblems(policy, policyPath(policy, i, config)));
  return (await Promise.all(found)).flat();
}

/** Returns the place of a policy: the job, or an entry of the list. */
function policyPath(policy: JobPolicy, i: number, { jobs = [] }: X402Config): PeerProblem["path"] {
  const job = jobs.findIndex((own) => own.policy === policy);
  return job === -1 ? ["x402", "job_policies", i] : ["jobs", job];
}

async function policyProblems({ restriction }: JobPolicy, path: PeerProblem["path"]): Promise<PeerProblem[]> {
  if (restriction === undefined) return [];
  try {
    const rpc = new Rpc({ rpcUrl: restriction.chainRpcUrl, timeoutMs: MAX_TIMEOUT_MS });
    if (await hasContract(rpc, restriction.chainContract)) return [];
    const message = "has no contract on this chain; expected the contract that permits callers";
    return [{ path: [...path, "chain_contract"], message }];
  } catch (error) {
    const message = unanswered(restriction.chainRpcUrl, error);
    return [{ path: [...path, "chain_rpc_url"], message }];
  }
}
