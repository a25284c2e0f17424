import { LRUCache } from "lru-cache";
import type { Logger } from "pino";
import type { Clock } from "../core/clock.ts";
import { type JobKey, jobKeyText } from "../core/job-call.ts";
import type { EngineQuotes, QuoteAnswer } from "./engine-quotes.ts";
import { isExpired, type JobQuote, MAX_QUOTED_JOB_INDEX } from "./job-quote.ts";
import { type JobPrice, type PriceSource, priceUnavailable } from "./price-source.ts";

/** An answer without a quote. */
type Refusal = Exclude<QuoteAnswer, { kind: "quote" }>;

const MAX_REMEMBERED = 10_000;
/** Anyone can ask for any job. A refusal is kept for a while, so that a storm of requests asks the engine once. */
const UNPRICED_MS = 5_000;
const FAILED_MS = 300;

/** Prices from the operator's pricing engine. A quote is the price of its job until it expires. */
export class EnginePrices implements PriceSource {
  readonly #source: EngineQuotes;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #quotes = new LRUCache<string, JobQuote>({ max: MAX_REMEMBERED });
  /** Refusals by job, each until a time in Unix milliseconds. */
  readonly #refusals = new LRUCache<string, { readonly answer: Refusal; readonly untilMs: number }>({
    max: MAX_REMEMBERED,
  });
  readonly #asking = new Map<string, Promise<JobPrice | undefined>>();

  constructor(parts: { readonly quotes: EngineQuotes; readonly clock: Clock; readonly logger: Logger }) {
    this.#source = parts.quotes;
    this.#clock = parts.clock;
    this.#logger = parts.logger;
  }

  async priceOf(job: JobKey): Promise<JobPrice | undefined> {
    if (job.jobIndex > MAX_QUOTED_JOB_INDEX) return undefined;
    const key = jobKeyText(job.serviceId, job.jobIndex);
    const quote = this.#quotes.get(key);
    if (quote !== undefined && !isExpired(quote, this.#clock())) return toPrice(quote);
    const refusal = this.#refusals.get(key);
    if (refusal !== undefined && this.#clock() < refusal.untilMs) return withoutQuote(refusal.answer);
    let asked = this.#asking.get(key);
    if (asked === undefined) {
      asked = this.#ask(job, key).finally(() => this.#asking.delete(key));
      this.#asking.set(key, asked);
    }
    return asked;
  }

  async #ask(job: JobKey, key: string): Promise<JobPrice | undefined> {
    const answer = await this.#source.ask(job);
    if (answer.kind === "quote") {
      this.#quotes.set(key, answer.quote);
      return toPrice(answer.quote);
    }
    const forMs = answer.kind === "unpriced" ? UNPRICED_MS : FAILED_MS;
    this.#refusals.set(key, { answer, untilMs: this.#clock() + forMs });
    if (answer.kind === "untrustworthy") {
      this.#logger.error({ job: key, reason: answer.reason }, "pricing engine's quote refused");
    } else if (answer.kind === "unavailable") {
      this.#logger.warn({ job: key, reason: answer.reason }, "pricing engine returned no quote");
    }
    return withoutQuote(answer);
  }
}

function toPrice(quote: JobQuote): JobPrice {
  return { priceWei: quote.priceWei, quote };
}

/** @throws GatewayError `price_unavailable`, unless the engine said that the job has no price */
function withoutQuote(answer: Refusal): undefined {
  switch (answer.kind) {
    case "unpriced":
      return undefined;
    case "unavailable":
      throw priceUnavailable("the pricing engine returned no quote");
    case "untrustworthy":
      throw priceUnavailable("the pricing engine's quote could not be verified");
  }
}
