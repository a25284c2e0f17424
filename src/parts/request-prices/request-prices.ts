import type { X402Config } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import { jobKeyText } from "../../core/job-call.ts";
import type { RequestPricing } from "../../core/price.ts";
import { parameterNames } from "../../core/route.ts";
import type { ShopAddition, X402Part } from "../../x402/part.ts";
import type { RulePricing } from "./config.ts";
import { PricesByRule } from "./prices-by-rule.ts";
import { SealedOffers, type Seals } from "./sealed-offers.ts";

/** Prices that depend on what is asked. */
export class PricesOfRequests implements X402Part {
  readonly #sealed: SealedOffers;
  readonly #clock: Clock;

  constructor({ tokens, clock }: { readonly tokens: Seals; readonly clock: Clock }) {
    this.#sealed = new SealedOffers(tokens);
    this.#clock = clock;
  }

  open({ jobs = [] }: Pick<X402Config, "jobs">): ShopAddition | undefined {
    const byJob = jobs.flatMap(({ serviceId, jobIndex, price, parameters, route }) => {
      if (!isByRule(price)) return [];
      const known = new Set(Object.keys(parameters?.properties ?? {}));
      if (route !== undefined) for (const name of parameterNames(route)) known.delete(name);
      const parts = { rule: price.byRule, known, sealed: this.#sealed, clock: this.#clock };
      return [[jobKeyText(serviceId, jobIndex), new PricesByRule(parts)] as const];
    });
    return byJob.length === 0 ? undefined : { requestPrices: new Map(byJob) };
  }
}

function isByRule(price: object | string | undefined): price is RequestPricing & RulePricing {
  return typeof price === "object" && "byRule" in price;
}
