import type { Logger } from "pino";
import type { Job, X402Config } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import { jobKeyText } from "../../core/job-call.ts";
import { parameterNames } from "../../core/route.ts";
import type { ShopAddition, X402Part } from "../../x402/part.ts";
import type { RequestPrices } from "../../x402/prices/request-prices.ts";
import type { ClientLimits } from "../../x402/purchase/client-limits.ts";
import { type PricerPricing, pricingOf } from "./config.ts";
import { Pricer } from "./pricer.ts";
import { keptAnswers, PricesByPricer } from "./prices-by-pricer.ts";
import { PricesByRule } from "./prices-by-rule.ts";
import type { KnownFields } from "./request-values.ts";

interface Services {
  readonly limits: Pick<ClientLimits, "clientOf">;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Prices that depend on what is asked. */
export class PricesOfRequests implements X402Part {
  readonly #services: Services;
  readonly #answers = keptAnswers();
  /** Those in use, by address. */
  #pricers: ReadonlyMap<string, Pricer> = new Map();

  constructor(services: Services) {
    this.#services = services;
  }

  open({ jobs = [], quoteTtlSecs }: Pick<X402Config, "jobs" | "quoteTtlSecs">): ShopAddition | undefined {
    const pricers = new Map<string, Pricer>();
    const pricerAt = ({ url, timeoutMs }: PricerPricing["byPricer"]) => {
      const key = JSON.stringify([url, timeoutMs]);
      const pricer =
        pricers.get(key) ?? this.#pricers.get(key) ?? new Pricer({ url, timeoutMs }, this.#services.logger);
      pricers.set(key, pricer);
      return pricer;
    };
    const byJob = jobs.flatMap((job) => {
      const pricing = pricingOf(job);
      if (pricing === undefined) return [];
      const prices: RequestPrices =
        "byRule" in pricing
          ? new PricesByRule(pricing.byRule, knownFieldsOf(job))
          : this.#byPricer(job, pricing, pricerAt(pricing.byPricer), quoteTtlSecs);
      return [[jobKeyText(job.serviceId, job.jobIndex), prices] as const];
    });
    if (byJob.length === 0 && this.#pricers.size === 0) return undefined;
    return { requestPrices: new Map(byJob), apply: () => this.#replace(pricers) };
  }

  #byPricer(
    { serviceId, jobIndex }: Job,
    { from, upTo, byPricer }: PricerPricing,
    pricer: Pricer,
    ttlSecs: number,
  ): PricesByPricer {
    const { limits, clock } = this.#services;
    const [min, max] = [from.amount, upTo.amount];
    return new PricesByPricer({
      ...{ job: { serviceId, jobIndex }, pricer, min, max, ttlSecs, answers: this.#answers, clock },
      id: [jobKeyText(serviceId, jobIndex), byPricer.url, min, max].join("\n"),
      clientOf: (asked) => limits.clientOf(asked),
    });
  }

  #replace(pricers: ReadonlyMap<string, Pricer>): void {
    for (const [key, pricer] of this.#pricers) if (!pricers.has(key)) void pricer.close();
    this.#pricers = pricers;
  }
}

/** Returns the fields that the query of a request may have. */
function knownFieldsOf({ parameters, route }: Job): KnownFields {
  const known = new Set(Object.keys(parameters?.properties ?? {}));
  if (route !== undefined) for (const name of parameterNames(route)) known.delete(name);
  return known;
}
