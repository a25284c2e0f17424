import { setImmediate, setTimeout } from "node:timers/promises";
import type { Job, X402Config } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import { isLoopbackHost, isPrivateHost } from "../../core/network-address.ts";
import { defined } from "../../core/objects.ts";
import type { Methods } from "../methods/methods.ts";
import type { JobChargeTerms, JobPolicies } from "../prices/job-policies.ts";
import type { JobPrice, PayableTokens, PriceSource } from "../prices/price-source.ts";
import type { TokenRates } from "../prices/token-rates.ts";
import { accessTo, type JobAccess, type Requirement, type Terms } from "../purchase/terms.ts";
import { makeOffers, type Offer, schemeOf } from "../wire/offer.ts";
import { JobUrls } from "../wire/paths.ts";

/** A job that is for sale. */
export interface ListedJob extends Omit<Job, "policy" | "price"> {
  readonly mode: "public_paid" | "restricted_paid";
  /** Set for a restricted job. */
  readonly access?: JobAccess;
  readonly requirements: readonly Requirement[];
  /** x402 schemes of the job's offers, in order. */
  readonly schemes: readonly string[];
  /** Undefined while the price is not known. */
  readonly price?: Pick<JobPrice, "priceWei" | "currency" | "range">;
  /** Ways to pay the current price. These offers are not stored; the offers of a 402 are stored and stay payable. */
  readonly offers: readonly ListedOffer[];
  /** Absolute URL at which the job is bought. */
  readonly url: string;
}

export interface ListedOffer extends Offer {
  /** Decimals of the token. */
  readonly decimals: number;
  /** Name of the transfer method for people. */
  readonly method: string;
  /** True if the price depends on the request, so that this is the lowest price. */
  readonly isLowest: boolean;
}

interface Parts {
  readonly config: Pick<X402Config, "jobs" | "jobPricing" | "jobPolicies" | "quoteTtlSecs" | "publicUrl">;
  readonly policies: JobPolicies;
  readonly prices: PriceSource;
  /** Returns true if the price of a job is in the configuration. Other prices are queried one by one. */
  readonly isConfigured: (job: Job) => boolean;
  readonly tokens: PayableTokens;
  readonly chargeTerms: Pick<JobChargeTerms, "of">;
  readonly terms: readonly Terms[];
  readonly methods: Methods;
  readonly rates: Pick<TokenRates, "rateOf">;
  readonly clock: Clock;
}

/** Age after which the next request rebuilds the listing, because rates and prices change. */
const MAX_AGE_MS = 5_000;
/** Additional age for each job. Listing a job takes 20 µs, so listings of any length use under 2 % of the CPU. */
const MAX_AGE_MS_PER_JOB = 1;
/** Number of jobs whose price a listing requests from a source, which may need a second of CPU for each price. */
const MAX_ASKED = 32;
/** Longest wait for those prices. Slower requests continue, for the next listing. */
const MAX_WAIT_MS = 1_000;
/** Number of jobs that are handled without a pause, which takes a few milliseconds. */
const JOBS_AT_ONCE = 200;

/** Answer for a price source that has no price now. */
const UNKNOWN = "unknown";
type Answer = JobPrice | undefined | typeof UNKNOWN;

/** The jobs for sale at one configuration, with their current prices. */
export class Listing {
  readonly #parts: Parts;
  readonly #jobs: readonly Job[];
  readonly #asked: readonly Job[];
  readonly #keys: ReadonlySet<string>;
  readonly #urls: JobUrls;
  #listed: readonly ListedJob[] = [];
  #madeAtMs = Number.NEGATIVE_INFINITY;
  #making: Promise<readonly ListedJob[]> | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#urls = new JobUrls(parts.config);
    this.#jobs = jobsOf(parts.config).filter(
      (job) => parts.policies.policyOf(job).invocationMode !== "disabled",
    );
    this.#keys = new Set(this.#jobs.map((job) => jobKeyText(job.serviceId, job.jobIndex)));
    this.#asked = this.#jobs.filter((job) => !parts.isConfigured(job)).slice(0, MAX_ASKED);
  }

  /** Returns true for a job that the configuration names and does not disable. */
  has({ serviceId, jobIndex }: JobKey): boolean {
    return this.#keys.has(jobKeyText(serviceId, jobIndex));
  }

  /** Returns every job for sale, in the configured order. Returns the same array as before if nothing has changed. */
  async jobs(): Promise<readonly ListedJob[]> {
    const ageMs = this.#parts.clock() - this.#madeAtMs;
    const maxAgeMs = MAX_AGE_MS + this.#jobs.length * MAX_AGE_MS_PER_JOB;
    if (ageMs >= 0 && ageMs < maxAgeMs) return this.#listed;
    this.#making ??= this.#make().finally(() => {
      this.#making = undefined;
    });
    return this.#making;
  }

  async #make(): Promise<readonly ListedJob[]> {
    const madeAtMs = this.#parts.clock();
    const answers = await this.#ask();
    const last = this.#listed;
    const listed: ListedJob[] = [];
    for (const [i, job] of this.#jobs.entries()) {
      if (i % JOBS_AT_ONCE === JOBS_AT_ONCE - 1) await setImmediate();
      const answer = this.#parts.isConfigured(job) ? await this.#priceOf(job) : answers.get(job);
      if (answer === undefined) continue;
      const entry = this.#entry(job, answer === UNKNOWN ? undefined : answer);
      const before = last[listed.length];
      listed.push(before !== undefined && isSame(before, entry) ? before : entry);
    }
    const isUnchanged = listed.length === last.length && listed.every((entry, i) => entry === last[i]);
    if (!isUnchanged) this.#listed = listed;
    this.#madeAtMs = madeAtMs;
    return this.#listed;
  }

  /** Returns the price sources' answers for all jobs whose price is not configured. */
  async #ask(): Promise<ReadonlyMap<Job, Answer>> {
    const answers = new Map<Job, Answer>();
    for (const job of this.#jobs) if (!this.#parts.isConfigured(job)) answers.set(job, UNKNOWN);
    if (this.#asked.length === 0) return answers;
    const ended = new AbortController();
    const late = setTimeout<typeof UNKNOWN>(MAX_WAIT_MS, UNKNOWN, { signal: ended.signal });
    try {
      await Promise.all(
        this.#asked.map(async (job) => {
          answers.set(job, await Promise.race([this.#priceOf(job), late]));
        }),
      );
    } finally {
      ended.abort();
    }
    return answers;
  }

  async #priceOf(job: Job): Promise<Answer> {
    try {
      return await this.#parts.prices.priceOf(job);
    } catch (error) {
      if (error instanceof GatewayError && error.code === "price_unavailable") return UNKNOWN;
      throw error;
    }
  }

  #entry(job: Job, price: JobPrice | undefined): ListedJob {
    const { policies, terms, methods } = this.#parts;
    const { charge = ["before"] } = job;
    const { policy: _policy, price: _own, ...described } = job;
    const { invocationMode } = policies.policyOf(job);
    return defined({
      ...described,
      mode: invocationMode === "restricted_paid" ? invocationMode : ("public_paid" as const),
      access: accessTo(job, terms),
      requirements: terms.flatMap((one) => one.requires?.(job) ?? []),
      schemes: charge.flatMap((kind) => methods.schemeOf(kind) ?? []),
      price: price && pick(price),
      offers: price ? this.#offers(job, price) : [],
      url: this.#urls.of(job),
    });
  }

  #offers({ serviceId, jobIndex }: Job, price: JobPrice): ListedOffer[] {
    const { policies, tokens, chargeTerms, methods, rates, config } = this.#parts;
    const job = { serviceId, jobIndex };
    const { priceWei, currency } = price;
    const terms = { job, priceWei, currency, charge: chargeTerms.of(job), ttlSecs: config.quoteTtlSecs };
    return tokens
      .of(job)
      .for(price, policies.policyOf(job))
      .flatMap((token) => {
        const offers = makeOffers({ ...terms, tokens: [token] }, rates);
        const method = methods.get(token.transferMethod).title;
        return offers.map((offer) => ({
          ...offer,
          decimals: token.decimals,
          method,
          isLowest: price.range !== undefined,
        }));
      });
  }
}

/** Returns the jobs that a configuration names, including disabled jobs. */
export function jobsOf({ jobs = [], jobPricing, jobPolicies }: Parts["config"]): Job[] {
  const found = new Map(jobs.map((job) => [jobKeyText(job.serviceId, job.jobIndex), job]));
  const add = (serviceId: bigint, jobIndex: number) => {
    const key = jobKeyText(serviceId, jobIndex);
    if (!found.has(key)) found.set(key, { serviceId, jobIndex });
  };
  for (const key of jobPricing.keys()) {
    const [serviceId = "", jobIndex] = key.split("/");
    add(BigInt(serviceId), Number(jobIndex));
  }
  // Jobs that only policies name are included, because a source may have a price for them.
  for (const { serviceId, jobIndex } of jobPolicies) add(serviceId, jobIndex);
  return [...found.values()];
}

function pick({ priceWei, currency, range }: JobPrice): NonNullable<ListedJob["price"]> {
  return defined({ priceWei, currency, range });
}

/** Returns true if two entries agree in everything that can change under one configuration. */
function isSame(left: ListedJob, right: ListedJob): boolean {
  return (
    left.url === right.url &&
    left.price?.priceWei === right.price?.priceWei &&
    left.price?.currency === right.price?.currency &&
    left.offers.length === right.offers.length &&
    left.offers.every((offer, i) => {
      const other = right.offers[i];
      return (
        other !== undefined &&
        offer.token.asset === other.token.asset &&
        offer.token.network === other.token.network &&
        offer.amount === other.amount &&
        schemeOf(offer) === schemeOf(other)
      );
    })
  );
}

/** Returns the reason why public catalogues cannot read a seller's documents; undefined if they can. */
export function publicUrlProblem(publicUrl: string): string | undefined {
  const { protocol, hostname, pathname } = new URL(publicUrl);
  const expected = [
    ...(protocol === "https:" ? [] : ["https"]),
    ...(isPrivateHost(hostname) || isLoopbackHost(hostname) ? ["a host that the internet knows"] : []),
    // Catalogues expect the documents at the root of the origin.
    ...(pathname === "/" ? [] : ["no path"]),
  ];
  return expected.length === 0 ? undefined : `public_url is ${publicUrl}; expected ${expected.join(" and ")}`;
}
