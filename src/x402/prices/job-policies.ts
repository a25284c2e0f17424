import type { Job, JobPolicy, X402Config } from "../../config/config.ts";
import { GatewayError } from "../../core/errors.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import type { SoonEnd } from "../../core/payment.ts";
import type { Facilitators } from "../facilitators/facilitators.ts";
import type { Methods } from "../methods/methods.ts";
import type { ChargeTerms } from "../wire/offer.ts";
import type { JobPrice, PriceSource } from "./price-source.ts";

/** A job's policy, and the promise to its buyers if it fails. */
export type SoldPolicy = JobPolicy & Pick<Job, "onFailure">;

/** A job for sale at its current price. */
interface FoundJob {
  readonly policy: SoldPolicy;
  /** Reason why the price source returned no price. The job can still be paid for at an offer made earlier. */
  readonly unavailable: GatewayError | undefined;
  /** Set if the price depends on the request. */
  readonly range: JobPrice["range"] | undefined;
}

/** Policies of the jobs. Clients can buy a job that has a price and a policy that allows it. */
export class JobPolicies {
  readonly #prices: PriceSource;
  readonly #policies: ReadonlyMap<string, JobPolicy>;
  readonly #promises: ReadonlyMap<string, Pick<Job, "onFailure">>;
  readonly #defaultMode: X402Config["defaultInvocationMode"];

  constructor(
    config: Pick<X402Config, "jobs" | "jobPolicies" | "defaultInvocationMode">,
    prices: PriceSource,
  ) {
    this.#prices = prices;
    this.#policies = new Map(config.jobPolicies.map((policy) => [keyOf(policy), policy]));
    this.#promises = new Map(
      (config.jobs ?? []).flatMap((job) =>
        job.onFailure === undefined ? [] : [[keyOf(job), { onFailure: job.onFailure }]],
      ),
    );
    this.#defaultMode = config.defaultInvocationMode;
  }

  /** Returns the job's own policy, or else the default one. */
  policyOf({ serviceId, jobIndex }: JobKey): SoldPolicy {
    const key = keyOf({ serviceId, jobIndex });
    const own = this.#policies.get(key) ?? { serviceId, jobIndex, invocationMode: this.#defaultMode };
    const promise = this.#promises.get(key);
    return promise === undefined ? own : { ...own, ...promise };
  }

  /**
   * Finds a job that is bought at its current price.
   * @throws GatewayError `job_not_found` without a price; `x402_disabled`; `price_unavailable` when the price source
   * cannot answer now and the job has no policy of its own
   */
  async find(job: JobKey): Promise<FoundJob> {
    let unavailable: GatewayError | undefined;
    let price: JobPrice | undefined;
    try {
      price = await this.#prices.priceOf(job);
      if (price === undefined) throw jobNotFound(job);
    } catch (error) {
      if (!(error instanceof GatewayError && error.code === "price_unavailable")) throw error;
      // A default of "disabled" must not confirm that the job exists. For an enabled job the search continues, because a
      // payment may answer an earlier offer.
      if (this.#defaultMode === "disabled" && !this.#policies.has(keyOf(job))) throw error;
      unavailable = error;
    }
    return { policy: this.requireEnabled(job), unavailable, range: price?.range };
  }

  /** @throws GatewayError `x402_disabled` */
  requireEnabled(job: JobKey): SoldPolicy {
    const policy = this.policyOf(job);
    if (policy.invocationMode !== "disabled") return policy;
    throw new GatewayError("x402_disabled", "This job exists, but cannot be bought over x402.", {
      details: { service_id: job.serviceId, job_index: job.jobIndex },
    });
  }
}

function keyOf({ serviceId, jobIndex }: JobKey): string {
  return jobKeyText(serviceId, jobIndex);
}

/** Refusal of a request for a job without a price. */
export function jobNotFound({ serviceId, jobIndex }: JobKey): GatewayError {
  return new GatewayError("job_not_found", "No such job is for sale here: it has no price.", {
    details: { service_id: serviceId, job_index: jobIndex },
  });
}

/** Longest run of a job whose `max_run_secs` is not configured. */
const DEFAULT_RUN_SECS = 300;

/** Returns the time that a run and its settlement may take; undefined if payments that expire soon do not last that long. */
function runSecsWithin({ maxRunSecs, marginSecs }: SoonEnd, runSecs: number): number | undefined {
  return runSecs <= maxRunSecs ? runSecs + marginSecs : undefined;
}

/** Terms of the jobs that are charged after they ran, at one configuration. */
export class JobChargeTerms {
  readonly #jobs: ReadonlyMap<string, Omit<ChargeTerms, "facilitatorAddresses">>;
  readonly #networks: readonly string[];
  readonly #facilitators: Pick<Facilitators, "facilitatorAddressOn">;
  /** Terms that were returned last, by job. */
  readonly #last = new Map<string, ChargeTerms>();

  constructor(parts: {
    readonly config: Pick<X402Config, "jobs" | "acceptedTokens" | "settleMarginSecs">;
    readonly facilitators: Pick<Facilitators, "facilitatorAddressOn">;
    readonly methods: Methods;
  }) {
    const { jobs = [], acceptedTokens, settleMarginSecs } = parts.config;
    this.#facilitators = parts.facilitators;
    this.#networks = [...new Set(acceptedTokens.map(({ network }) => network))];
    const { ceilingScheme: scheme } = parts.methods;
    const methods = new Set(
      [...parts.methods].flatMap(({ name }) => (parts.methods.chargesPart(name) ? name : [])),
    );
    const soon = [...parts.methods].flatMap(({ name, endsSoon }) =>
      endsSoon ? [[name, endsSoon] as const] : [],
    );
    this.#jobs = new Map(
      jobs.flatMap(({ serviceId, jobIndex, charge, leastCharge, maxRunSecs = DEFAULT_RUN_SECS }) => {
        if (charge === undefined) return [];
        const terms = {
          kinds: charge,
          methods,
          scheme,
          runSecs: maxRunSecs + settleMarginSecs,
          ...(soon.length > 0 && {
            runSecsOf: new Map(soon.map(([name, end]) => [name, runSecsWithin(end, maxRunSecs)])),
          }),
          leastCharge,
        };
        return [[jobKeyText(serviceId, jobIndex), terms] as const];
      }),
    );
  }

  /**
   * Returns the terms of a job, as the same object while they do not change; undefined if the job is only charged before it
   * runs.
   */
  of({ serviceId, jobIndex }: JobKey): ChargeTerms | undefined {
    const key = jobKeyText(serviceId, jobIndex);
    const terms = this.#jobs.get(key);
    if (terms === undefined) return undefined;
    const facilitatorAddresses = new Map(
      this.#networks.flatMap((network) => {
        const address = this.#facilitators.facilitatorAddressOn(network);
        return address === undefined ? [] : [[network, address] as const];
      }),
    );
    const last = this.#last.get(key);
    const isSame = (network: string) =>
      last?.facilitatorAddresses.get(network) === facilitatorAddresses.get(network);
    if (last !== undefined && this.#networks.every(isSame)) return last;
    const changed = { ...terms, facilitatorAddresses };
    this.#last.set(key, changed);
    return changed;
  }
}
