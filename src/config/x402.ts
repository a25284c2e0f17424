import { z } from "zod";
import { jobKeyText } from "../core/job-call.ts";
import { localUrl } from "../core/network-address.ts";
import { type Checked, type Complete, required } from "./check-shape.ts";
import {
  address,
  baseUrl,
  httpUrl,
  idKey,
  integer,
  ipRange,
  jsonPointer,
  label,
  maxBodyBytes,
  network,
  oneOf,
  rate,
  seconds,
  tcpAddress,
  text,
  trueOrFalse,
  u32,
  u64,
  wei,
  wholeSeconds,
} from "./value-types.ts";

const markupBps = () => integer(0, 65_535);

const liveRate = {
  /** A value that is older is not used. */
  maxAgeMs: wholeSeconds(),
  /** Time between two requests; less than `maxAgeMs`. */
  refreshMs: seconds(0.001).optional(),
};

const rateSource = z.object({
  /** A Chainlink price feed, or another contract with the AggregatorV3Interface. */
  chainlink: z
    .object({
      /** May hold credentials. */
      rpcUrl: httpUrl(),
      feed: address(),
      ...liveRate,
    })
    .optional(),
  /** JSON over HTTP. */
  http: z
    .object({
      /** May hold credentials. */
      url: httpUrl(),
      /** JSON pointer (RFC 6901) to the rate. */
      pointer: jsonPointer(),
      ...liveRate,
    })
    .optional(),
});

const acceptedToken = z.object({
  /** CAIP-2, `eip155:N`. */
  network: network(),
  asset: address(),
  symbol: label(),
  decimals: integer(0, 36),
  payTo: address(),
  /** Decimal string > 0: whole tokens for one native unit. */
  ratePerNativeUnit: rate().optional(),
  rateSource: rateSource.optional(),
  markupBps: markupBps().optional(),
  // Permit2 emits no event that ties a settlement to its payment, so jobgate could not confirm one.
  transferMethod: oneOf(["eip3009"], "this version cannot settle permit2 safely").default("eip3009"),
  eip3009Name: text("the name in the token's EIP-712 domain"),
  eip3009Version: text("the version in the token's EIP-712 domain"),
  rpcUrl: httpUrl().optional(),
  /** Blocks that must hold the settlement before it counts, its own included. */
  confirmations: integer(1, 10_000).default(1),
  /** A settlement counts only once the chain shows it. Never true without `rpcUrl`. */
  requireOnchainConfirmation: trueOrFalse().optional(),
});

const jobPolicy = z.object({
  serviceId: u64(),
  jobIndex: u32(),
  invocationMode: oneOf(["disabled", "public_paid", "restricted_paid"]),
  authMode: oneOf(["payer_is_caller", "delegated_caller_signature"]).optional(),
  chainRpcUrl: httpUrl().optional(),
  chainContract: address().optional(),
  /** Name of `chainRpcUrl` in files for the SDK. */
  tangleRpcUrl: httpUrl().optional(),
  /** Name of `chainContract` in files for the SDK. */
  tangleContract: address().optional(),
  /** Time for which a permission found on the chain is reused; 0 asks the chain every time. */
  permissionCacheSecs: integer(0, 86_400).default(0),
});

/** Bounds on the work that clients can cause before anything is paid. */
const limits = z.object({
  /** Requests without a settled payment from one client address. */
  maxUnpaidPerSecondPerClient: integer(1, 1_000_000).default(1000),
  /** Concurrent verifications at the facilitator for one client address. */
  maxVerifiesPerClient: integer(1, 1_000_000).default(128),
  /** Concurrent verifications at the facilitator for all clients. */
  maxVerifies: integer(1, 1_000_000).default(512),
});

/** The `[x402]` table. rules/x402.ts checks its keys against each other. */
export const x402Schema = z.object({
  bindAddress: tcpAddress().prefault("0.0.0.0:8402"),
  /** Without a trailing slash. */
  publicUrl: baseUrl().optional(),
  /** Without a trailing slash. */
  facilitatorUrl: baseUrl(),
  facilitatorTimeoutMs: seconds(0.001).default(30_000),
  quoteTtlSecs: integer(1, 31_536_000).default(300),
  maxBodyBytes: maxBodyBytes(),
  /** Payments that are undecided for over a minute, above which no more are taken. */
  maxUndecided: integer(1, 1_000_000_000).default(100_000),
  /** The same for one payer. */
  maxOpenPerPayer: integer(1, 1_000_000_000).default(256),
  /** For tokens without a rate of their own. */
  ratePerNativeUnit: rate().optional(),
  /** For tokens without a markup of their own. */
  markupBps: markupBps().default(0),
  /** For jobs without a policy. */
  defaultInvocationMode: oneOf(
    ["disabled", "public_paid"],
    "restricted_paid needs a policy for each job",
  ).default("disabled"),
  priceSource: oneOf(["map", "engine"]).default("map"),
  /** Accepted because files for the SDK have it here. */
  serviceId: u64().optional(),
  /** Proxies whose `X-Forwarded-For` names the client that limits apply to. */
  trustedProxies: z.array(ipRange()).describe("an array of address ranges").optional(),
  limits: limits.prefault({}),
  acceptedTokens: z.array(acceptedToken).describe("an array of tables, one for each token"),
  jobPolicies: z.array(jobPolicy).describe("an array of tables, one for each job").default([]),
});

/** The `[job_pricing]` table: price by service id and job index. */
export const jobPricingSchema = z
  .record(idKey(64), z.record(idKey(32), wei()).describe('a table of job_index = "wei"'))
  .describe("a table of tables, one for each service");

export type X402Table = Checked<z.output<typeof x402Schema>>;
export type TokenTable = Checked<z.output<typeof acceptedToken>>;
export type PolicyTable = Checked<z.output<typeof jobPolicy>>;

export type X402Config = Complete<ReturnType<typeof toX402Config>>;
export type AcceptedToken = Complete<ReturnType<typeof toToken>>;
/** Source of a token's rate: whole tokens for one native unit. */
export type RateSource = AcceptedToken["rate"];
export type X402Limits = X402Config["limits"];
export interface JobPolicy extends Pick<PolicyOutput, "serviceId" | "jobIndex" | "invocationMode"> {
  /** Present if and only if the mode is `restricted_paid`. */
  readonly restriction?: JobRestriction;
}
export type JobRestriction = Complete<ReturnType<typeof toRestriction>>;

type TokenOutput = Complete<z.output<typeof acceptedToken>>;
type PolicyOutput = Complete<z.output<typeof jobPolicy>>;

/** Completes a table without mistakes: tokens get their rate, policies their restriction. */
export function toX402Config(
  { ratePerNativeUnit, markupBps, serviceId: _, ...x402 }: Complete<z.output<typeof x402Schema>>,
  pricing: Complete<z.output<typeof jobPricingSchema>>,
) {
  return {
    ...x402,
    publicUrl: x402.publicUrl ?? localUrl(x402.bindAddress),
    acceptedTokens: x402.acceptedTokens.map((token) => toToken(token, { ratePerNativeUnit, markupBps })),
    jobPolicies: x402.jobPolicies.map(toPolicy),
    /** Prices in wei by `jobKeyText`. */
    jobPricing: toPriceMap(pricing),
  };
}

function toToken(
  { ratePerNativeUnit, rateSource, eip3009Name, eip3009Version, ...token }: TokenOutput,
  defaults: { readonly ratePerNativeUnit: string | undefined; readonly markupBps: number },
) {
  return {
    ...token,
    rate: toRate(rateSource, ratePerNativeUnit ?? defaults.ratePerNativeUnit),
    markupBps: token.markupBps ?? defaults.markupBps,
    /** EIP-712 domain of the token. */
    eip3009: { name: eip3009Name, version: eip3009Version },
    requireOnchainConfirmation: token.requireOnchainConfirmation ?? token.rpcUrl !== undefined,
  };
}

function toRate(live: TokenOutput["rateSource"], ratePerNativeUnit: string | undefined) {
  if (live?.chainlink !== undefined) {
    return { kind: "chainlink" as const, ...live.chainlink, refreshMs: refreshMsOf(live.chainlink) };
  }
  if (live?.http !== undefined)
    return { kind: "http" as const, ...live.http, refreshMs: refreshMsOf(live.http) };
  return { kind: "fixed" as const, ratePerNativeUnit: required(ratePerNativeUnit) };
}

const DEFAULT_REFRESH_MS = 5_000;

function refreshMsOf({ maxAgeMs, refreshMs }: { maxAgeMs: number; refreshMs?: number }): number {
  return refreshMs ?? Math.min(DEFAULT_REFRESH_MS, maxAgeMs / 4);
}

function toPolicy(policy: PolicyOutput): JobPolicy {
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

function toPriceMap(pricing: Complete<z.output<typeof jobPricingSchema>>): ReadonlyMap<string, bigint> {
  const prices = new Map<string, bigint>();
  for (const [serviceId, jobs] of Object.entries(pricing)) {
    for (const [jobIndex, priceWei] of Object.entries(jobs)) {
      prices.set(jobKeyText(BigInt(serviceId), Number(jobIndex)), priceWei);
    }
  }
  return prices;
}
