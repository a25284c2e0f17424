import { closestWord } from "../../core/closest-word.ts";
import { jobKeyText } from "../../core/job-call.ts";
import { isLoopbackHost } from "../../core/network-address.ts";
import type { PolicyTable } from "../job-policies.ts";
import type { JobTable } from "../jobs.ts";
import { earlierPlace, fileKey, type MistakeList, type Place } from "../mistakes.ts";
import { isPublicAccount } from "../public-accounts.ts";
import type { ConfigTables } from "../schema.ts";
import { isTestNetwork, networkName } from "../token-presets.ts";
import { isSoldIn, type TokenTable, type X402Table } from "../x402.ts";
import { checkFacilitators } from "./facilitators.ts";
import { checkForwardedHeaders } from "./forwarded-headers.ts";
import { checkRate } from "./rates.ts";
import { checkCredentials } from "./urls.ts";

/** Checks the keys of `[x402]`, its tokens and its policies against each other. */
export function checkX402(tables: ConfigTables, mistakes: MistakeList): void {
  const { serviceId, x402 } = tables;
  if (x402 === undefined) return;
  const place = mistakes.at("x402");
  checkFacilitators(tables, x402, place);
  checkPublicUrl(x402, place.at("public_url"));
  if (serviceId !== undefined && x402.serviceId !== undefined && serviceId !== x402.serviceId) {
    place.at("service_id").warn(`is not used: the service id is ${serviceId}`);
  }
  checkForwardedHeaders(x402.forwardHeaders, place.at("forward_headers"));
  checkTokens(tables, x402, place.at("accepted_tokens"));
  checkPolicies(x402, place.at("job_policies"));
}

function checkPublicUrl({ publicUrl, bindAddress }: X402Table, place: Place): void {
  if (publicUrl !== undefined) {
    const { username, password } = new URL(publicUrl);
    if (username !== "" || password !== "") {
      place.report("has credentials, which every client would see; expected a URL without them");
    }
  } else if (bindAddress !== undefined && !isLoopbackHost(bindAddress.host)) {
    place.warn("is missing, so clients are told the address of the listener, which they may not reach");
  }
}

function checkTokens({ jobs = [], claims }: ConfigTables, x402: X402Table, list: Place): void {
  const names = jobs.map((job) => job?.name);
  const seen = new Map<string, Place>();
  for (const [i, token] of (x402.acceptedTokens ?? []).entries()) {
    if (token === undefined) continue;
    const place = list.at(i);
    checkToken(token, place);
    for (const [j, name] of (token.jobs ?? []).entries())
      if (name !== undefined && !names.includes(name))
        place
          .at("jobs", j)
          .report(`is "${name}", which no job has as its name; ${expectedName(name, names)}`);
    checkRate(token, i, { x402, claims }, place);
    const { network, asset, transferMethod } = token;
    if (network === undefined || asset === undefined || transferMethod === undefined) continue;
    for (const job of token.jobs ?? ["any"]) {
      const first = earlierPlace(seen, `${network} ${asset} ${transferMethod} ${job}`, place);
      if (first === undefined) continue;
      const times = token.jobs === undefined ? "once" : `once for the job "${job}"`;
      place.report(`is the same token as ${first.text}; expected each ${times}`);
      break;
    }
  }
}

function expectedName(name: string, names: readonly (string | undefined)[]): string {
  const known = names.flatMap((one) => one ?? []);
  if (known.length === 0) return "expected a name in [[jobs]]";
  const near = closestWord(name, known);
  return near === undefined ? "expected the name of one of jobs" : `expected "${near}"`;
}

/** An accepted token and its place; undefined for a token with a mistake. */
export type PlacedToken = readonly [token: TokenTable | undefined, place: Place, index: number];

/**
 * Returns the accepted tokens that a job is sold in, and every token with a mistake, because the token may be one in which
 * the job is sold.
 */
export function tokensOf(
  { name }: Pick<JobTable, "name">,
  { acceptedTokens = [] }: X402Table,
  list: Place,
): PlacedToken[] {
  return acceptedTokens.flatMap((token, i) =>
    token === undefined || isSoldIn(token, name, acceptedTokens) ? [[token, list.at(i), i] as const] : [],
  );
}

function checkToken(token: TokenTable, place: Place): void {
  const { payTo, network } = token;
  if (payTo && network && isPublicAccount(payTo) && !isTestNetwork(network)) {
    place
      .at("pay_to")
      .report(
        `is an account of development nodes, whose private key is public: anyone could take what it is paid on ${networkName(network)}; expected your own address`,
      );
  }
  checkCredentials(place.at("rpc_url"), token.rpcUrl);
  if (token.requireOnchainConfirmation === true && token.rpcUrl === undefined) {
    place
      .at("rpc_url")
      .reportMissing(
        "is missing; expected the RPC to confirm with, since require_onchain_confirmation is true",
      );
  }
}

function checkPolicies({ jobPolicies = [] }: X402Table, list: Place): void {
  const seen = new Map<string, Place>();
  for (const [i, policy] of jobPolicies.entries()) {
    if (policy === undefined) continue;
    const place = list.at(i);
    checkPolicy(policy, place);
    if (policy.serviceId === undefined || policy.jobIndex === undefined) continue;
    const first = earlierPlace(seen, jobKeyText(policy.serviceId, policy.jobIndex), place);
    if (first !== undefined)
      place.report(`is for the same job as ${first.text}; expected one policy for each job`);
  }
}

/** Keys of a restricted policy, each with its name in files for the SDK. */
const RESTRICTION_KEYS = [
  ["authMode", undefined],
  ["chainRpcUrl", "tangleRpcUrl"],
  ["chainContract", "tangleContract"],
] as const;

/** @param modeKey name of the key that holds the mode */
export function checkPolicy(policy: PolicyTable, place: Place, modeKey = "invocation_mode"): void {
  checkCredentials(place.at("chain_rpc_url"), policy.chainRpcUrl);
  checkCredentials(place.at("tangle_rpc_url"), policy.tangleRpcUrl);
  for (const [key, alias] of RESTRICTION_KEYS) {
    const isGiven = policy[key] !== undefined;
    const isAliasGiven = alias !== undefined && policy[alias] !== undefined;
    const aliasPlace = place.at(fileKey(alias ?? key));
    if (isGiven && isAliasGiven) {
      aliasPlace.report(
        `is another name of ${fileKey(key)}, which is set as well; expected only one of them`,
      );
    }
    // A wrong value under the alias is already reported.
    const isMissing = !isGiven && !isAliasGiven && !aliasPlace.isReported;
    if (policy.invocationMode !== "restricted_paid" || !isMissing) continue;
    const value = key === "authMode" ? '"payer_is_caller" or "delegated_caller_signature"' : "it";
    place
      .at(fileKey(key))
      .reportMissing(`is missing; expected ${value}, since ${modeKey} is "restricted_paid"`);
  }
}
