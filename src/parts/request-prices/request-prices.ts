import type { Logger } from "pino";
import type { Job, X402Config } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import { jobKeyText } from "../../core/job-call.ts";
import { parameterNames } from "../../core/route.ts";
import type { ShopAddition, X402Part } from "../../x402/part.ts";
import { KeptPrices, type RequestPrices } from "../../x402/prices/request-prices.ts";
import type { BodyChecks } from "../../x402/purchase/input-checks.ts";
import type { Terms, TermsCheck } from "../../x402/purchase/terms.ts";
import { type PricerPricing, pricingOf } from "./config.ts";
import { requireValue } from "./price-of.ts";
import type { Pricer } from "./pricer.ts";
import { PricesByPricer } from "./prices-by-pricer.ts";
import { PricesByRule } from "./prices-by-rule.ts";
import type { KnownFields } from "./request-values.ts";
import type { Rule } from "./rule.ts";

interface Services {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly bodies: Pick<BodyChecks, "read">;
}

/** Prices that depend on the request, for all jobs of a configuration. */
export class PricesOfRequests implements X402Part {
  readonly #services: Services;
  readonly #kept: KeptPrices;
  /** Pricers in use, by address. */
  #pricers: ReadonlyMap<string, Pricer> = new Map();

  constructor(services: Services) {
    this.#services = services;
    this.#kept = new KeptPrices(services.clock);
  }

  async open({
    jobs = [],
    quoteTtlSecs,
  }: Pick<X402Config, "jobs" | "quoteTtlSecs">): Promise<ShopAddition | undefined> {
    const pricers = new Map<string, Pricer>();
    const pricerAt = async ({ url, timeoutMs }: PricerPricing["byPricer"]) => {
      const key = JSON.stringify([url, timeoutMs]);
      const { Pricer } = await import("./pricer.ts");
      const pricer =
        pricers.get(key) ?? this.#pricers.get(key) ?? new Pricer({ url, timeoutMs }, this.#services.logger);
      pricers.set(key, pricer);
      return pricer;
    };
    const pricesOf = async (job: Job): Promise<RequestPrices | undefined> => {
      const { clock, bodies } = this.#services;
      const pricing = pricingOf(job);
      if (pricing === undefined) return undefined;
      if ("byRule" in pricing) return new PricesByRule(pricing.byRule, knownFieldsOf(job), bodies);
      const pricer = await pricerAt(pricing.byPricer);
      return new PricesByPricer({ job, pricing, pricer, kept: this.#kept, ttlSecs: quoteTtlSecs, clock });
    };
    const byJob = new Map<string, RequestPrices>();
    for (const job of jobs) {
      const prices = await pricesOf(job);
      if (prices !== undefined) byJob.set(jobKeyText(job.serviceId, job.jobIndex), prices);
    }
    if (byJob.size === 0 && this.#pricers.size === 0) return undefined;
    return { requestPrices: byJob, terms: new RuleTerms(jobs), apply: () => this.#replace(pricers) };
  }

  #replace(pricers: ReadonlyMap<string, Pricer>): void {
    for (const [key, pricer] of this.#pricers) if (!pricers.has(key)) void pricer.close();
    this.#pricers = pricers;
  }
}

/** Returns the fields that the query of a request may have. */
export function knownFieldsOf({ parameters, route }: Job): KnownFields {
  const known = new Set(Object.keys(parameters?.properties ?? {}));
  if (route !== undefined) for (const name of parameterNames(route)) known.delete(name);
  return known;
}

/** Refuses to sell requests that only ask what a job costs, because they have no value that the job's rule could read. */
export class RuleTerms implements Terms {
  readonly checks: readonly TermsCheck[];

  constructor(jobs: readonly Job[]) {
    const rules = new Map<string, Rule>();
    for (const job of jobs) {
      const pricing = pricingOf(job);
      if (pricing !== undefined && "byRule" in pricing)
        rules.set(jobKeyText(job.serviceId, job.jobIndex), pricing.byRule);
    }
    this.checks = [
      {
        name: "value",
        jobs: rules,
        before: "offer",
        refusals: ["invalid_input"],
        run({ job, request, body }) {
          const rule = rules.get(jobKeyText(job.serviceId, job.jobIndex));
          if (rule !== undefined)
            requireValue(rule, {
              ...{ body, path: request.path, query: request.query },
              headerValues: (name) => request.headerValues(name),
            });
          return undefined;
        },
      },
    ];
  }
}
