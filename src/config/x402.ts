import * as z from "zod";
import { jobKeyText } from "../core/job-call.ts";
import { localUrl } from "../core/network-address.ts";
import { defined } from "../core/objects.ts";
import type { FailurePromise } from "../core/payment.ts";
import type { Abilities } from "./abilities.ts";
import { type Checked, type Complete, required } from "./check-shape.ts";
import type { EntryClaims, LiveRateSource } from "./entry-keys.ts";
import { areSameFacilitators, facilitatorSchema, facilitatorUrl, toFacilitator } from "./facilitators.ts";
import { jobPolicySchema, toPolicy } from "./job-policies.ts";
import { toJob } from "./jobs.ts";
import type { PartTables } from "./part-tables.ts";
import { priceSource } from "./price-sources.ts";
import { changesIf, fixed } from "./reload.ts";
import {
  anyAddress,
  anyNetwork,
  idKey,
  integer,
  jobName,
  label,
  maxBodyBytes,
  oneOf,
  prose,
  rate,
  seconds,
  text,
  trueOrFalse,
  u64,
  wei,
} from "./value-types.ts";
import {
  contact,
  headerNames,
  httpUrl,
  ipRange,
  publicUrl,
  serviceName,
  tcpAddress,
  themeColor,
  webOrigin,
} from "./web-types.ts";
import { needs, SHOWN } from "./wrong-value.ts";

const markupBps = () => integer(0, 65_535);

const acceptedToken = z.object({
  /** Symbol of a preset, which fills `asset`, `symbol`, `decimals`, `currency` and the EIP-712 domain. */
  token: text("the symbol of a token that jobgate knows on its network", SHOWN).optional(),
  network: anyNetwork(),
  asset: anyAddress().optional(),
  symbol: label().optional(),
  decimals: integer(0, 36).optional(),
  /** Currency to which the token is pegged. The token pays prices in this currency one to one. */
  currency: oneOf(["USD"]).optional(),
  payTo: anyAddress(),
  /**
   * Names of the only jobs that are sold in the token and paid to `payTo`. Undefined means all jobs that no other entry of
   * the token names.
   */
  jobs: z.array(jobName()).min(1).describe("an array of names of jobs").optional(),
  /** Decimal string > 0: whole tokens for one native unit. */
  ratePerNativeUnit: rate().optional(),
  markupBps: markupBps().optional(),
  /** Name of a transfer method of this build. Default: the preset's method; without a preset, a method that pays any token. */
  transferMethod: text("the name of a transfer method", SHOWN).optional(),
  eip3009Name: text("the name in the token's EIP-712 domain", SHOWN).optional(),
  eip3009Version: text("the version in the token's EIP-712 domain", SHOWN).optional(),
  rpcUrl: httpUrl().optional(),
  /** Confirmations that a settlement needs, including its own block. */
  confirmations: integer(1, 10_000).default(1),
  /** If true, a settlement is accepted only once the chain shows it. Never true without `rpcUrl`. */
  requireOnchainConfirmation: trueOrFalse().optional(),
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
  bindAddress: fixed(tcpAddress().prefault("0.0.0.0:8402")),
  /** The URL has no trailing slash. */
  publicUrl: publicUrl().optional(),
  /** Name under which the jobs are listed. Default: the host of `publicUrl`. */
  serviceName: serviceName().optional(),
  /** Name of the seller for people and agents. Default: `serviceName`. */
  title: label().optional(),
  /** E-mail address or page of the seller. */
  contact: contact().optional(),
  /** URL of the seller's picture. */
  logo: publicUrl().optional(),
  /** Colour of the seller, as `#rrggbb`. */
  themeColor: themeColor().optional(),
  /** URL of a page with the terms that buyers agree to. */
  termsOfService: publicUrl().optional(),
  /** Advice to agents before they buy. Crawlers take 4,000 characters, of which jobgate needs a part. */
  guidance: prose(2_000).optional(),
  /** URL of the only facilitator, without a trailing slash. Used instead of `facilitators`. */
  facilitatorUrl: facilitatorUrl().optional(),
  facilitatorTimeoutMs: fixed(seconds(0.001).default(30_000)),
  quoteTtlSecs: integer(1, 31_536_000).default(300),
  maxBodyBytes: maxBodyBytes(),
  /** Limit on payments that have been undecided for over a minute. At the limit, new payments are refused. */
  maxUndecided: integer(1, 1_000_000_000).default(100_000),
  /** The same limit for one payer. */
  maxOpenPerPayer: integer(1, 1_000_000_000).default(256),
  /**
   * Time before a payment expires at which a job that still runs is charged or ended. Facilitators refuse a payment with
   * less than 6 s left.
   */
  settleMarginSecs: integer(10, 86_400).default(60),
  /** Rate for tokens that configure no rate. */
  ratePerNativeUnit: rate().optional(),
  /** Markup for tokens that configure no markup. */
  markupBps: markupBps().default(0),
  /** Mode for jobs that configure no policy. */
  defaultInvocationMode: oneOf(
    ["disabled", "public_paid"],
    "restricted_paid needs a policy for each job",
  ).default("disabled"),
  priceSource: fixed(priceSource().default("map")),
  /** Header names for jobs that configure no list. */
  forwardHeaders: headerNames().optional(),
  /** The key is accepted here because files for the SDK have it here. */
  serviceId: u64().optional(),
  /** Proxies whose `X-Forwarded-For` names the client that limits apply to. */
  trustedProxies: z.array(ipRange()).describe("an array of address ranges").optional(),
  /** Origins of web pages that may use this listener; `*` for all. */
  corsOrigins: z
    .array(webOrigin())
    .describe('an array of origins, such as ["https://shop.example"], or ["*"]')
    .default(["*"]),
  limits: limits.prefault({}),
  /** The order is the order in which facilitators are called. */
  facilitators: changesIf(
    areSameFacilitators,
    needs(
      { abilityFor: (list) => (list.length > 1 ? "failover" : undefined), otherwise: "one" },
      z.array(facilitatorSchema).min(1).describe("an array of tables, one for each facilitator"),
    ).optional(),
  ),
  acceptedTokens: z.array(acceptedToken).min(1).describe("an array of tables, one for each token"),
  jobPolicies: z.array(jobPolicySchema).describe("an array of tables, one for each job").default([]),
});

/** The `[job_pricing]` table: price by service id and job index. */
export const jobPricingSchema = z
  .record(idKey(64), z.record(idKey(32), wei()).describe('a table of job_index = "wei"'))
  .describe("a table of tables, one for each service");

export type X402Table = Checked<z.output<typeof x402Schema>>;
export type TokenTable = Checked<z.output<typeof acceptedToken>>;

/**
 * Returns true if a job is sold in an accepted token. The token's entry must name the job, or must name no jobs while
 * no other entry of the same token names the job.
 * @param name of the job, if it has a name
 * @param tokens all accepted tokens
 */
export function isSoldIn(
  { jobs, network, asset }: SoldToken,
  name: string | undefined,
  tokens: readonly (SoldToken | undefined)[],
): boolean {
  if (name === undefined) return jobs === undefined;
  if (jobs !== undefined) return jobs.includes(name);
  return !tokens.some(
    (other) => other?.jobs?.includes(name) && other.network === network && other.asset === asset,
  );
}

type SoldToken = Pick<TokenTable, "network" | "asset"> & {
  readonly jobs?: readonly (string | undefined)[] | undefined;
};

export type X402Config = Complete<ReturnType<typeof toX402Config>>;
export type AcceptedToken = Complete<ReturnType<typeof toToken>> & {
  /** Set for a token that a part offers in another scheme. Such a token is a copy of a configured entry. */
  readonly offered?: OfferedToken;
};

/** Offers of a token in a scheme other than `exact`. */
export interface OfferedToken {
  readonly scheme: string;
  /** Returns the fields that the scheme adds to the `extra` of an offer. @param amount token units */
  extraFor(amount: bigint): Readonly<Record<string, unknown>>;
  /**
   * Name of the promise to charge back the part of a payment that a job does not use, or the whole payment if the job fails.
   * Undefined if jobs that are charged after they ran are not sold in the scheme.
   */
  readonly unusedPromise?: string;
  /** True if clients of the scheme send requests by GET, which buy nothing, to every job that is offered in it. */
  readonly isAskedByGet?: true;
}
export type X402Limits = X402Config["limits"];
type X402Output = Complete<z.output<typeof x402Schema>>;
type TokenOutput = Complete<z.output<typeof acceptedToken>>;
type FilledToken = ReturnType<typeof fillToken>;

/** Turns a single facilitator into a list, and leaves out the service ID, which belongs at the top level of the file. */
export function withFacilitatorList({ serviceId: _, facilitatorUrl, facilitators, ...x402 }: X402Output) {
  return { ...x402, facilitators: facilitators ?? [{ url: required(facilitatorUrl) }] };
}

/** Fills the values that follow from other keys. */
export function fillX402(x402: ReturnType<typeof withFacilitatorList>, claims: EntryClaims) {
  return {
    ...x402,
    publicUrl: x402.publicUrl ?? localUrl(x402.bindAddress),
    acceptedTokens: x402.acceptedTokens.map((token, i) =>
      fillToken(
        token,
        claims.of("x402.acceptedTokens", i) ? undefined : x402.ratePerNativeUnit,
        x402.markupBps,
      ),
    ),
  };
}

function fillToken(token: TokenOutput, ratePerNativeUnit: string | undefined, markupBps: number) {
  return defined({
    ...token,
    ratePerNativeUnit: token.ratePerNativeUnit ?? ratePerNativeUnit,
    markupBps: token.markupBps ?? markupBps,
    requireOnchainConfirmation: token.requireOnchainConfirmation ?? token.rpcUrl !== undefined,
  });
}

/**
 * Completes a table without mistakes. Fills the rates of tokens, the restrictions of policies and the services of jobs.
 */
export function toX402Config(
  { ratePerNativeUnit: _rate, markupBps: _markup, facilitators, ...x402 }: ReturnType<typeof fillX402>,
  of: {
    readonly pricing: Complete<z.output<typeof jobPricingSchema>>;
    readonly jobs: readonly Parameters<typeof toJob>[0][];
    readonly abilities: Abilities;
    readonly claims: EntryClaims;
    readonly parts: PartTables;
  },
) {
  const { promises } = of.abilities;
  const tokens: readonly AcceptedToken[] = x402.acceptedTokens.map((token, i) =>
    toToken(token, of.claims.of("x402.acceptedTokens", i)?.complete()),
  );
  const jobs = of.jobs.map((job, i) => {
    const ofParts = of.claims.all("jobs", i).map((claim) => claim.complete());
    return toJob(job, {
      runner: ofParts.find(({ runner }) => runner)?.runner,
      terms: ofParts.flatMap(({ terms = [] }) => terms),
      price: of.claims.of("jobs.price", i)?.complete(),
      leastCharge: ofParts.find(({ leastCharge }) => leastCharge)?.leastCharge,
      limit: ofParts.find(({ limit }) => limit)?.limit,
    });
  });
  return defined({
    ...x402,
    /** The order is the order in which facilitators are called. There is at least one. */
    facilitators: facilitators.map((table, i) =>
      toFacilitator(
        table,
        of.claims.of("x402.facilitators", i)?.complete(),
        of.claims.of("x402.facilitators.auth", i)?.complete(),
      ),
    ),
    /** True if this configuration can pay buyers back for jobs that fail. */
    paysBack: promises.some(({ name }) => of.abilities.makes(name)) || undefined,
    /** Promises of this build to buyers of jobs that fail, sorted by their worth to a buyer, the best promise first. */
    promises: promises.length > 0 ? (promises as readonly FailurePromise[]) : undefined,
    /** The configured tokens in their order, followed by tokens that parts offer. */
    acceptedTokens: [...tokens, ...[...of.parts].flatMap(([table, own]) => table.tokensBeside(own, tokens))],
    /** Policies of `[[x402.job_policies]]`, then policies of `[[jobs]]`. */
    jobPolicies: [...x402.jobPolicies.map(toPolicy), ...jobs.flatMap(({ policy }) => policy ?? [])],
    /** Prices in wei by `jobKeyText`. A job's own price takes precedence. */
    jobPricing: toPriceMap(of.pricing),
    jobs: jobs.length > 0 ? jobs : undefined,
    /** Tables of parts, as in the whole configuration. */
    parts: of.parts,
  });
}

function toToken(
  { token: _preset, ratePerNativeUnit, eip3009Name, eip3009Version, ...token }: FilledToken,
  live: LiveRateSource | undefined,
) {
  return defined({
    ...token,
    asset: required(token.asset),
    symbol: required(token.symbol),
    decimals: required(token.decimals),
    /** Undefined if the token pays only prices in its currency. */
    rate: toRate(live, ratePerNativeUnit),
    transferMethod: required(token.transferMethod),
    /**
     * EIP-712 domain of the token. A token that another method pays has a domain if it supports EIP-2612, for the payer's
     * approval.
     */
    eip3009: eip3009Name && eip3009Version ? { name: eip3009Name, version: eip3009Version } : undefined,
  });
}

export interface FixedRate {
  readonly kind: "fixed";
  readonly ratePerNativeUnit: string;
}

function toRate(
  live: LiveRateSource | undefined,
  ratePerNativeUnit: string | undefined,
): FixedRate | LiveRateSource | undefined {
  return live ?? (ratePerNativeUnit === undefined ? undefined : { kind: "fixed", ratePerNativeUnit });
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
