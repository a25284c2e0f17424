import { LRUCache } from "lru-cache";
import type { Logger } from "pino";
import type { Clock } from "../core/clock.ts";
import type { JobKey } from "../core/job-call.ts";
import { jobKeyText } from "../core/job-call.ts";
import type { EngineQuotes, QuoteAnswer } from "./engine-quotes.ts";
import { isExpired, type JobQuote, MAX_QUOTED_JOB_INDEX } from "./job-quote.ts";
import type { JobPrice, PriceSource } from "./price-map.ts";
import { priceUnavailable } from "./price-unavailable.ts";

export interface EnginePricesOptions {
  readonly quotes: EngineQuotes;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface Failure {
  readonly answer: Exclude<QuoteAnswer, { kind: "quote" }>;
  /** Unix milliseconds until which the engine is not asked again. */
  readonly untilMs: number;
}

const MAX_REMEMBERED = 10_000;
/** Anybody can ask for any job: each answer is good for a while, so that a storm of requests is one question. */
const UNPRICED_MS = 5_000;
const FAILED_MS = 300;

/** Prices from the operator's pricing engine. A quote is the price of its job for as long as it lasts. */
export function createEnginePrices({ quotes, clock, logger }: EnginePricesOptions): PriceSource {
  const quoted = new LRUCache<string, JobQuote>({ max: MAX_REMEMBERED });
  const failures = new LRUCache<string, Failure>({ max: MAX_REMEMBERED });
  const asking = new Map<string, Promise<JobPrice | undefined>>();

  async function ask(job: JobKey, key: string): Promise<JobPrice | undefined> {
    const answer = await quotes.ask(job);
    if (answer.kind === "quote") {
      quoted.set(key, answer.quote);
      return priceOf(answer.quote);
    }
    const forMs = answer.kind === "unpriced" ? UNPRICED_MS : FAILED_MS;
    failures.set(key, { answer, untilMs: clock() + forMs });
    if (answer.kind === "untrustworthy") {
      logger.error({ job: key, reason: answer.reason }, "the pricing engine's quote is refused");
    } else if (answer.kind === "unavailable") {
      logger.warn({ job: key, reason: answer.reason }, "the pricing engine gives no quote");
    }
    return withoutQuote(answer);
  }

  return {
    async priceOf(job) {
      if (job.jobIndex > MAX_QUOTED_JOB_INDEX) return undefined;
      const key = jobKeyText(job.serviceId, job.jobIndex);
      const quote = quoted.get(key);
      if (quote !== undefined && !isExpired(quote, clock())) return priceOf(quote);
      const failure = failures.get(key);
      if (failure !== undefined && clock() < failure.untilMs) return withoutQuote(failure.answer);
      let asked = asking.get(key);
      if (asked === undefined) {
        asked = ask(job, key).finally(() => asking.delete(key));
        asking.set(key, asked);
      }
      return asked;
    },
  };
}

function priceOf(quote: JobQuote): JobPrice {
  return { priceWei: quote.priceWei, quote };
}

/** @throws GatewayError unless the engine said that the job has no price */
function withoutQuote(answer: Failure["answer"]): undefined {
  switch (answer.kind) {
    case "unpriced":
      return undefined;
    case "unavailable":
      throw priceUnavailable("the pricing engine gives no quote");
    case "untrustworthy":
      throw priceUnavailable("the pricing engine's quote cannot be relied on");
  }
}
