import type { JobPolicy, X402Config } from "../../config/config.ts";
import { GatewayError } from "../../core/errors.ts";
import { equalJobs, type JobKey, jobKeyText } from "../../core/job-call.ts";
import type { PriceSource } from "../../pricing/price-map.ts";

/** A job that can be bought: it has a price, and its policy lets it be bought. */
export interface PurchasableJob extends JobKey {
  readonly policy: JobPolicy;
}

export interface JobCatalog {
  /**
   * A job at its list price.
   * @throws GatewayError `job_not_found` when it has none, `x402_disabled` when its policy forbids,
   * `price_unavailable` when nobody can tell now whether it has one and no policy of its own is known
   */
  find(job: JobKey): Promise<PurchasableJob>;
  /**
   * A job whose price is in a quote.
   * @param checkQuote rejects unless there is such a quote: without one, it is not said whether the job exists
   * @throws GatewayError `x402_disabled` when its policy forbids; whatever `checkQuote` rejects with then
   */
  findQuoted(job: JobKey, checkQuote: () => Promise<void>): Promise<PurchasableJob>;
}

type PolicyConfig = Pick<X402Config, "jobPolicies" | "defaultInvocationMode">;

export function createJobCatalog(config: PolicyConfig, prices: PriceSource): JobCatalog {
  const policyOf = createJobPolicies(config);
  const hasOwnPolicy = (job: JobKey) => config.jobPolicies.some((policy) => equalJobs(policy, job));

  function findPriced({ serviceId, jobIndex }: JobKey): PurchasableJob {
    const policy = policyOf({ serviceId, jobIndex });
    if (policy.invocationMode === "disabled") {
      throw new GatewayError("x402_disabled", "This job exists, but cannot be bought over x402.", {
        details: { service_id: serviceId, job_index: jobIndex },
      });
    }
    return { serviceId, jobIndex, policy };
  }

  return {
    async findQuoted(job, checkQuote) {
      // A quote that has run out still finds the payment that was made for it: for a job that is for sale it is not asked for here.
      if (policyOf(job).invocationMode === "disabled") await checkQuote();
      return findPriced(job);
    },
    async find(job) {
      try {
        if ((await prices.priceOf(job)) === undefined) throw notFound(job);
      } catch (error) {
        if (!(error instanceof GatewayError && error.code === "price_unavailable")) throw error;
        // The default says nothing of a job that may not exist. One that is for sale may have been offered before:
        // its offers decide.
        if (config.defaultInvocationMode === "disabled" && !hasOwnPolicy(job)) throw error;
      }
      return findPriced(job);
    },
  };
}

function notFound({ serviceId, jobIndex }: JobKey): GatewayError {
  return new GatewayError("job_not_found", "No such job is for sale here: it has no price.", {
    details: { service_id: serviceId, job_index: jobIndex },
  });
}

/** The policy of each job: its own, or the default. */
export function createJobPolicies(config: PolicyConfig): (job: JobKey) => JobPolicy {
  const policies = new Map(
    config.jobPolicies.map((policy) => [jobKeyText(policy.serviceId, policy.jobIndex), policy]),
  );
  return ({ serviceId, jobIndex }) =>
    policies.get(jobKeyText(serviceId, jobIndex)) ?? {
      serviceId,
      jobIndex,
      invocationMode: config.defaultInvocationMode,
    };
}
