import { jobKeyText } from "../../core/job-call.ts";
import { isLoopbackHost } from "../../core/network-address.ts";
import type { Checked } from "../check-shape.ts";
import type { JobPolicy } from "../config.ts";
import { type KeyPath, keyPathText } from "../mistake.ts";
import type { MistakeList } from "../mistake-list.ts";
import type { CheckedFile } from "../schema.ts";
import { checkRate } from "./rate-sources.ts";
import { checkCredentials, checkHttps } from "./urls.ts";

type X402Table = NonNullable<Checked<CheckedFile>["x402"]>;
type TokenTable = NonNullable<NonNullable<X402Table["accepted_tokens"]>[number]>;
type PolicyTable = NonNullable<NonNullable<X402Table["job_policies"]>[number]>;

/** What holds between the keys of `[x402]`, its tokens and its policies. */
export function checkX402(file: Checked<CheckedFile>, mistakes: MistakeList): void {
  const { x402 } = file;
  if (x402 === undefined) return;
  checkHttps(["x402", "facilitator_url"], x402.facilitator_url, mistakes);
  checkPublicUrl(x402, mistakes);
  if (x402.price_source === "engine" && file.pricing_engine === undefined) {
    mistakes.reportMissing(
      ["pricing_engine"],
      'is missing; expected the table, since x402.price_source is "engine"',
    );
  }
  if (file.service_id !== undefined && x402.service_id !== undefined && file.service_id !== x402.service_id) {
    mistakes.warn(["x402", "service_id"], `is not used: the service id is ${file.service_id}`);
  }
  checkTokens(x402, mistakes);
  checkPolicies(x402, mistakes);
}

function checkPublicUrl(x402: X402Table, mistakes: MistakeList): void {
  const path = ["x402", "public_url"];
  if (x402.public_url !== undefined) {
    const { username, password } = new URL(x402.public_url);
    if (username !== "" || password !== "") {
      mistakes.report(path, "holds credentials, which every client would be told; expected a URL without");
    }
  } else if (x402.bind_address !== undefined && !isLoopbackHost(x402.bind_address.host)) {
    mistakes.warn(
      path,
      "is missing, so clients are told the address of the listener, which they may not reach",
    );
  }
}

function checkTokens(x402: X402Table, mistakes: MistakeList): void {
  const tokens = x402.accepted_tokens;
  if (tokens?.length === 0) {
    mistakes.report(
      ["x402", "accepted_tokens"],
      "is empty; expected at least one token that clients can pay in",
    );
  }
  const seen = new Map<string, KeyPath>();
  for (const [i, token] of (tokens ?? []).entries()) {
    if (token === undefined) continue;
    const path = ["x402", "accepted_tokens", i];
    checkToken(token, x402, path, mistakes);
    if (token.network === undefined || token.asset === undefined || token.transfer_method === undefined)
      continue;
    const key = `${token.network} ${token.asset} ${token.transfer_method}`;
    const first = seen.get(key);
    if (first === undefined) seen.set(key, path);
    else mistakes.report(path, `is the same token as ${keyPathText(first)}; expected each once`);
  }
}

function checkToken(token: TokenTable, x402: X402Table, path: KeyPath, mistakes: MistakeList): void {
  checkRate(token, x402, path, mistakes);
  if (token.transfer_method === "permit2") {
    // A settlement that cannot be confirmed to be this payment must not buy a job: Permit2 emits no event for it.
    mistakes.report(
      [...path, "transfer_method"],
      'is "permit2", which this version cannot settle safely; expected "eip3009", and a token that has it',
    );
  }
  if (token.transfer_method === "eip3009") {
    for (const key of ["eip3009_name", "eip3009_version"] as const) {
      if (token[key] !== undefined) continue;
      mistakes.reportMissing(
        [...path, key],
        'is missing; expected it as in the token\'s EIP-712 domain, since transfer_method is "eip3009"',
      );
    }
  }
  checkCredentials([...path, "rpc_url"], token.rpc_url, mistakes);
  if (token.require_onchain_confirmation === true && token.rpc_url === undefined) {
    mistakes.reportMissing(
      [...path, "rpc_url"],
      "is missing; expected the RPC to confirm with, since require_onchain_confirmation is true",
    );
  }
}

function checkPolicies(x402: X402Table, mistakes: MistakeList): void {
  const seen = new Map<string, KeyPath>();
  for (const [i, policy] of (x402.job_policies ?? []).entries()) {
    if (policy === undefined) continue;
    const path = ["x402", "job_policies", i];
    checkPolicy(policy, path, mistakes);
    if (policy.service_id === undefined || policy.job_index === undefined) continue;
    const key = jobKeyText(policy.service_id, policy.job_index);
    const first = seen.get(key);
    if (first === undefined) seen.set(key, path);
    else
      mistakes.report(path, `is for the same job as ${keyPathText(first)}; expected one policy for each job`);
  }
}

/** Keys of the SDK's files, and the keys that they are other names of. */
const ALIASES = { tangle_rpc_url: "chain_rpc_url", tangle_contract: "chain_contract" } as const;

function checkPolicy(policy: PolicyTable, path: KeyPath, mistakes: MistakeList): void {
  for (const [alias, key] of Object.entries(ALIASES) as [
    keyof typeof ALIASES,
    "chain_rpc_url" | "chain_contract",
  ][]) {
    if (policy[alias] !== undefined && policy[key] !== undefined) {
      mistakes.report(
        [...path, alias],
        `is another name of ${key}, which is set as well; expected only one of them`,
      );
    }
  }
  checkCredentials([...path, "chain_rpc_url"], policy.chain_rpc_url, mistakes);
  checkCredentials([...path, "tangle_rpc_url"], policy.tangle_rpc_url, mistakes);
  const mode: JobPolicy["invocationMode"] | undefined = policy.invocation_mode;
  if (mode !== "restricted_paid") return;
  const { rpcUrl, contract } = chainOf(policy);
  const needed = { auth_mode: policy.auth_mode, chain_rpc_url: rpcUrl, chain_contract: contract };
  const aliasOf = {
    auth_mode: undefined,
    chain_rpc_url: "tangle_rpc_url",
    chain_contract: "tangle_contract",
  } as const;
  for (const key of ["auth_mode", "chain_rpc_url", "chain_contract"] as const) {
    const alias = aliasOf[key];
    // A value under the alias that is there but wrong is reported already.
    if (needed[key] !== undefined || (alias !== undefined && mistakes.isReported([...path, alias]))) continue;
    const what = key === "auth_mode" ? '"payer_is_caller" or "delegated_caller_signature"' : "it";
    mistakes.reportMissing(
      [...path, key],
      `is missing; expected ${what}, since invocation_mode is "restricted_paid"`,
    );
  }
}

/** Where a policy asks whether a caller is permitted, under either name of the keys. */
export function chainOf(policy: {
  chain_rpc_url?: string | undefined;
  tangle_rpc_url?: string | undefined;
  chain_contract?: `0x${string}` | undefined;
  tangle_contract?: `0x${string}` | undefined;
}): { rpcUrl: string | undefined; contract: `0x${string}` | undefined } {
  return {
    rpcUrl: policy.chain_rpc_url ?? policy.tangle_rpc_url,
    contract: policy.chain_contract ?? policy.tangle_contract,
  };
}
