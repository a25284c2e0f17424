import type { Logger } from "pino";
import type { Clock } from "../../core/clock.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import { within } from "../../core/waiting.ts";
import { jobNotFound } from "../../x402/prices/job-policies.ts";
import { type JobPrice, priceUnavailable } from "../../x402/prices/price-source.ts";
import type { AskedRequest, KeptPrices, RequestPrices } from "../../x402/prices/request-prices.ts";
import { logRefusal, MAX_WAIT_MS, renewalMs, withoutQuote } from "./engine-prices.ts";
import type { EngineQuotes } from "./engine-quotes.ts";
import { MAX_QUOTED_JOB_INDEX, toPrice } from "./job-quote.ts";
import type { JobQuote } from "./quotes.ts";

interface Parts {
  readonly job: JobKey;
  readonly quotes: EngineQuotes;
  readonly kept: KeptPrices;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The prices of a job whose `price` is "engine": each is the engine's quote for the body of the request. */
export class PricesByInputs implements RequestPrices {
  readonly headers = [];
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async priceOf(asked: AskedRequest): Promise<JobPrice> {
    const { job, kept, clock } = this.#parts;
    const key = jobKeyText(job.serviceId, job.jobIndex);
    if (job.jobIndex > MAX_QUOTED_JOB_INDEX) throw jobNotFound(job);
    const asking = kept.find(key, asked, async () => {
      const quote = await this.#quoteFor(asked.body);
      return { price: toPrice(quote), endsAt: clock() + renewalMs(quote, clock()) };
    });
    // The query continues. It keeps its place until the engine answers, and the answer is kept for the next request.
    const price = await within(MAX_WAIT_MS, asking);
    if (price === undefined) throw priceUnavailable("the pricing engine is busy with other jobs");
    return price;
  }

  async #quoteFor(body: Uint8Array): Promise<JobQuote> {
    const { job, quotes, logger } = this.#parts;
    const { keccak } = await import("hash-wasm");
    const inputs = Buffer.from(await keccak(body, 256), "hex");
    const answer = await quotes.ask(job, { urgent: true }, inputs);
    if (answer.kind === "quote") return answer.quote;
    logRefusal(logger, job, answer);
    withoutQuote(answer);
    throw jobNotFound(job);
  }
}
