import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";
import type { JobKey } from "../../core/job-call.ts";
import { type JobPrice, priceUnavailable } from "../../x402/prices/price-source.ts";
import type { AskedRequest, RequestPrices } from "../../x402/prices/request-prices.ts";
import type { Pricer } from "./pricer.ts";
import { readPricerAnswer } from "./pricer-answer.ts";
import { requireOneContentType, requirePlainBody } from "./request-values.ts";
import { greater } from "./rule.ts";

/** Bound on the answers that are kept. For an evicted one the pricer is asked again. */
const MAX_ANSWERS = 10_000;

/** Answer to one question. */
interface KeptAnswer {
  readonly price: Promise<JobPrice>;
  /** Unix milliseconds; undefined until there is an answer. */
  endsAt: number | undefined;
}

/** The answers of pricers, which stay for the lifetime of an offer. */
export type KeptAnswers = ReturnType<typeof keptAnswers>;

export function keptAnswers() {
  return boundedCache<string, KeptAnswer>(MAX_ANSWERS);
}

interface Parts {
  readonly job: JobKey;
  readonly pricer: Pricer;
  /** Lowest and highest price, in 10^-18 dollars. */
  readonly min: bigint;
  readonly max: bigint;
  readonly ttlSecs: number;
  readonly answers: KeptAnswers;
  /** Distinguishes the answers from those of other jobs, pricers and bounds. */
  readonly id: string;
  readonly clientOf: (asked: AskedRequest) => string;
  readonly clock: Clock;
}

/** The prices of one job that an operator's program makes. */
export class PricesByPricer implements RequestPrices {
  readonly headers = [];
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Asks once for equal requests. An answer is the price of its request for the lifetime of an offer. */
  priceOf(asked: AskedRequest): Promise<JobPrice> {
    const { answers, id, ttlSecs, clock } = this.#parts;
    const key = `${id}\n${asked.hash}`;
    const kept = answers.get(key);
    if (kept !== undefined && (kept.endsAt === undefined || clock() < kept.endsAt)) return kept.price;
    const answer: KeptAnswer = { price: this.#ask(asked), endsAt: undefined };
    answers.set(key, answer);
    answer.price.then(
      () => {
        answer.endsAt = clock() + ttlSecs * 1000;
      },
      () => {
        if (answers.peek(key) === answer) answers.delete(key);
      },
    );
    return answer.price;
  }

  async #ask(asked: AskedRequest): Promise<JobPrice> {
    // The pricer learns neither header.
    requirePlainBody(asked);
    requireOneContentType(asked);
    const { job, pricer, min, max, clientOf } = this.#parts;
    const outcome = await pricer.ask(job, asked, clientOf(asked));
    const answer = readPricerAnswer(outcome, max);
    if (answer.kind === "refusal") throw answer.refusal;
    if (answer.kind === "none") {
      pricer.warn(job, answer.problem);
      throw priceUnavailable("the seller's pricer made none");
    }
    const { price, description } = answer;
    return {
      priceWei: greater(price, min),
      currency: "USD",
      ...(description === undefined ? {} : { extra: { description } }),
    };
  }
}
