import { type AcceptedToken, type JobPolicy, jobKeyText, type X402Config } from "../config/config.ts";
import { GatewayError } from "../errors.ts";
import type { JobKey } from "../job-call.ts";
import type { JobPrice, PriceSource } from "../pricing/price-map.ts";
import type { OfferTerms, PricedToken } from "./offer.ts";

/** A job that can be bought: it has a price, and its policy lets it be bought. */
export interface PurchasableJob extends JobKey {
  readonly price: JobPrice;
  readonly policy: JobPolicy;
}

export interface JobCatalog {
  /** @throws GatewayError `job_not_found` when it has no price, `x402_disabled` when its policy forbids */
  find(job: JobKey): Promise<PurchasableJob>;
}

type PolicyConfig = Pick<X402Config, "jobPolicies" | "defaultInvocationMode">;

export function createJobCatalog(config: PolicyConfig, prices: PriceSource): JobCatalog {
  const policyOf = createJobPolicies(config);
  return {
    async find({ serviceId, jobIndex }) {
      const details = { service_id: serviceId, job_index: jobIndex };
      const price = await prices.priceOf({ serviceId, jobIndex });
      if (price === undefined) {
        throw new GatewayError("job_not_found", "No such job is for sale here: it has no price.", {
          details,
        });
      }
      const policy = policyOf({ serviceId, jobIndex });
      if (policy.invocationMode === "disabled") {
        throw new GatewayError("x402_disabled", "This job exists, but cannot be bought over x402.", {
          details,
        });
      }
      return { serviceId, jobIndex, price, policy };
    },
  };
}

/** What to offer for every job that can be bought at a mapped price. */
export function offerTerms(config: X402Config): OfferTerms[] {
  const catalog = createJobPolicies(config);
  const tokens = config.acceptedTokens.flatMap(atFixedRate);
  return [...config.jobPricing].flatMap(([keyText, priceWei]) => {
    const [serviceId = "", jobIndex = ""] = keyText.split("/");
    const job: JobKey = { serviceId: BigInt(serviceId), jobIndex: Number(jobIndex) };
    if (catalog(job).invocationMode === "disabled") return [];
    return [{ job, priceWei, tokens, ttlSecs: config.quoteTtlSecs }];
  });
}

function atFixedRate(token: AcceptedToken): PricedToken[] {
  const { rate } = token;
  return rate.kind === "fixed" ? [{ ...token, ratePerNativeUnit: rate.ratePerNativeUnit }] : [];
}

function createJobPolicies(config: PolicyConfig): (job: JobKey) => JobPolicy {
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
