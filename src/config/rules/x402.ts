import { jobKeyText } from "../../core/job-call.ts";
import { isLoopbackHost } from "../../core/network-address.ts";
import type { ConfigTables } from "../config.ts";
import { fileKey, type KeyPath, keyPathText } from "../key-path.ts";
import type { MistakeList } from "../mistakes.ts";
import type { PolicyTable, TokenTable, X402Table } from "../x402.ts";
import { checkRate } from "./rate-sources.ts";
import { checkCredentials, checkHttps } from "./urls.ts";

/** Checks the keys of `[x402]`, its tokens and its policies against each other. */
export function checkX402({ serviceId, x402, pricingEngine }: ConfigTables, mistakes: MistakeList): void {
  if (x402 === undefined) return;
  checkHttps(["x402", "facilitator_url"], x402.facilitatorUrl, mistakes);
  checkPublicUrl(x402, mistakes);
  if (x402.priceSource === "engine" && pricingEngine === undefined) {
    mistakes.reportMissing(
      ["pricing_engine"],
      'is missing; expected the table, since x402.price_source is "engine"',
    );
  }
  if (serviceId !== undefined && x402.serviceId !== undefined && serviceId !== x402.serviceId) {
    mistakes.warn(["x402", "service_id"], `is not used: the service id is ${serviceId}`);
  }
  checkTokens(x402, mistakes);
  checkPolicies(x402, mistakes);
}

function checkPublicUrl({ publicUrl, bindAddress }: X402Table, mistakes: MistakeList): void {
  const path = ["x402", "public_url"];
  if (publicUrl !== undefined) {
    const { username, password } = new URL(publicUrl);
    if (username !== "" || password !== "") {
      mistakes.report(path, "has credentials, which every client would see; expected a URL without them");
    }
  } else if (bindAddress !== undefined && !isLoopbackHost(bindAddress.host)) {
    mistakes.warn(
      path,
      "is missing, so clients are told the address of the listener, which they may not reach",
    );
  }
}

function checkTokens(x402: X402Table, mistakes: MistakeList): void {
  if (x402.acceptedTokens?.length === 0) {
    mistakes.report(
      ["x402", "accepted_tokens"],
      "is empty; expected at least one token that clients can pay in",
    );
  }
  const seen = new Map<string, KeyPath>();
  for (const [i, token] of (x402.acceptedTokens ?? []).entries()) {
    if (token === undefined) continue;
    const path = ["x402", "accepted_tokens", i];
    checkToken(token, x402, path, mistakes);
    const { network, asset, transferMethod } = token;
    if (network === undefined || asset === undefined || transferMethod === undefined) continue;
    const key = `${network} ${asset} ${transferMethod}`;
    const first = seen.get(key);
    if (first === undefined) seen.set(key, path);
    else mistakes.report(path, `is the same token as ${keyPathText(first)}; expected each once`);
  }
}

function checkToken(token: TokenTable, x402: X402Table, path: KeyPath, mistakes: MistakeList): void {
  checkRate(token, x402, path, mistakes);
  checkCredentials([...path, "rpc_url"], token.rpcUrl, mistakes);
  if (token.requireOnchainConfirmation === true && token.rpcUrl === undefined) {
    mistakes.reportMissing(
      [...path, "rpc_url"],
      "is missing; expected the RPC to confirm with, since require_onchain_confirmation is true",
    );
  }
}

function checkPolicies({ jobPolicies = [] }: X402Table, mistakes: MistakeList): void {
  const seen = new Map<string, KeyPath>();
  for (const [i, policy] of jobPolicies.entries()) {
    if (policy === undefined) continue;
    const path = ["x402", "job_policies", i];
    checkPolicy(policy, path, mistakes);
    if (policy.serviceId === undefined || policy.jobIndex === undefined) continue;
    const key = jobKeyText(policy.serviceId, policy.jobIndex);
    const first = seen.get(key);
    if (first === undefined) seen.set(key, path);
    else
      mistakes.report(path, `is for the same job as ${keyPathText(first)}; expected one policy for each job`);
  }
}

/** Keys of a restricted policy, each with its name in files for the SDK. */
const RESTRICTION_KEYS = [
  ["authMode", undefined],
  ["chainRpcUrl", "tangleRpcUrl"],
  ["chainContract", "tangleContract"],
] as const;

function checkPolicy(policy: PolicyTable, path: KeyPath, mistakes: MistakeList): void {
  checkCredentials([...path, "chain_rpc_url"], policy.chainRpcUrl, mistakes);
  checkCredentials([...path, "tangle_rpc_url"], policy.tangleRpcUrl, mistakes);
  for (const [key, alias] of RESTRICTION_KEYS) {
    const isGiven = policy[key] !== undefined;
    const isAliasGiven = alias !== undefined && policy[alias] !== undefined;
    const aliasPath = [...path, fileKey(alias ?? key)];
    if (isGiven && isAliasGiven) {
      mistakes.report(
        aliasPath,
        `is another name of ${fileKey(key)}, which is set as well; expected only one of them`,
      );
    }
    // A value under the alias that is there but wrong is reported already.
    const isMissing = !isGiven && !isAliasGiven && !mistakes.isReported(aliasPath);
    if (policy.invocationMode !== "restricted_paid" || !isMissing) continue;
    const value = key === "authMode" ? '"payer_is_caller" or "delegated_caller_signature"' : "it";
    mistakes.reportMissing(
      [...path, fileKey(key)],
      `is missing; expected ${value}, since invocation_mode is "restricted_paid"`,
    );
  }
}
