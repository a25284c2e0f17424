import type { Clock } from "../../core/clock.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import { type JobPrice, priceUnavailable } from "../../x402/prices/price-source.ts";
import type { AskedRequest, KeptPrices, RequestPrices } from "../../x402/prices/request-prices.ts";
import type { PricerPricing } from "./config.ts";
import type { Pricer } from "./pricer.ts";
import { readPricerAnswer } from "./pricer-answer.ts";
import { requireOneContentType, requirePlainBody } from "./request-values.ts";
import { greater } from "./rule.ts";

interface Parts {
  readonly job: JobKey;
  readonly pricing: PricerPricing;
  readonly pricer: Pricer;
  readonly kept: KeptPrices;
  /** Lifetime of offers. A response of the pricer is kept as long. */
  readonly ttlSecs: number;
  readonly clock: Clock;
}

/** Prices of one job, made by an operator's program. */
export class PricesByPricer implements RequestPrices {
  readonly headers = [];
  readonly #parts: Parts;
  readonly #id: string;

  constructor(parts: Parts) {
    const { job, pricing } = parts;
    this.#parts = parts;
    const bounds = [pricing.from.amount, pricing.upTo.amount];
    this.#id = [jobKeyText(job.serviceId, job.jobIndex), pricing.byPricer.url, ...bounds].join("\n");
  }

  priceOf(asked: AskedRequest): Promise<JobPrice> {
    const { kept, ttlSecs, clock } = this.#parts;
    return kept.find(this.#id, asked, async () => {
      const price = await this.#ask(asked);
      return { price, endsAt: clock() + ttlSecs * 1000 };
    });
  }

  async #ask(asked: AskedRequest): Promise<JobPrice> {
    // The pricer receives neither Content-Encoding nor a second Content-Type.
    requirePlainBody(asked);
    requireOneContentType(asked);
    const { job, pricing, pricer } = this.#parts;
    const { from, upTo } = pricing;
    const answer = readPricerAnswer(await pricer.ask(job, asked), upTo.amount);
    if (answer.kind === "refusal") throw answer.refusal;
    if (answer.kind === "none") {
      pricer.warn(job, answer.problem);
      throw priceUnavailable("the seller's program made none");
    }
    const { price, description } = answer;
    return {
      priceWei: greater(price, from.amount),
      currency: "USD",
      ...(description === undefined ? {} : { extra: { description } }),
    };
  }
}
