import type { Logger } from "pino";
import type { X402Config } from "../../config/config.ts";
import { type Clock, systemClock } from "../../core/clock.ts";
import { jobKeyText } from "../../core/job-call.ts";
import type { ShopAddition, X402Part } from "../../x402/part.ts";
import { KeptPrices } from "../../x402/prices/request-prices.ts";
import type { EngineQuotes } from "./engine-quotes.ts";
import { PricesByInputs } from "./prices-by-inputs.ts";

/** The jobs whose `price` is "engine". */
export class EngineJobs implements X402Part {
  readonly #services: { readonly quotes: EngineQuotes; readonly logger: Logger; readonly clock: Clock };
  readonly #kept: KeptPrices;

  constructor(quotes: EngineQuotes, logger: Logger, clock = systemClock) {
    this.#services = { quotes, logger, clock };
    this.#kept = new KeptPrices(clock);
  }

  open({ jobs = [] }: Pick<X402Config, "jobs">): ShopAddition | undefined {
    const byEngine = jobs.filter(({ price }) => price === "engine");
    if (byEngine.length === 0) return undefined;
    const prices = byEngine.map(({ serviceId, jobIndex }) => {
      const job = { serviceId, jobIndex };
      return [
        jobKeyText(serviceId, jobIndex),
        new PricesByInputs({ ...this.#services, job, kept: this.#kept }),
      ] as const;
    });
    return { requestPrices: new Map(prices) };
  }
}
