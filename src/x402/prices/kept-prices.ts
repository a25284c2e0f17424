import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";
import { WorkLimit } from "../../http/work-limit.ts";
import type { JobPrice } from "./price-source.ts";
import type { AskedRequest } from "./request-prices.ts";

/** Maximum number of kept prices. The price of an evicted request is asked for again. */
const MAX_PRICES = 10_000;

/** Bounds of the questions in progress. */
export const QUESTIONS = {
  perClient: 8,
  total: 64,
  reason: "Too many prices are being asked for at once. Nothing was charged",
};

/** An answer to the question for a price. */
interface Answer {
  readonly price: JobPrice;
  /** Unix milliseconds from which the question is asked anew. */
  readonly endsAt: number;
}

/** A question, and its answer once that is there. */
interface KeptPrice {
  readonly price: Promise<JobPrice>;
  endsAt: number | undefined;
}

/** Prices of requests that another program gave. Each is kept until its end. */
export class KeptPrices {
  readonly #clock: Clock;
  readonly #limit = new WorkLimit();
  readonly #kept = boundedCache<string, KeptPrice>(MAX_PRICES);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Returns the price of a request. Equal requests share one question.
   * @param id distinguishes those who are asked
   * @throws GatewayError `rate_limited`, or what `ask` rejects with
   */
  find(id: string, asked: AskedRequest, ask: () => Promise<Answer>): Promise<JobPrice> {
    const key = `${id}\n${asked.hash}`;
    const kept = this.#kept.get(key);
    if (kept !== undefined && (kept.endsAt === undefined || this.#clock() < kept.endsAt)) return kept.price;
    const answer = this.#limit.run(asked.client, QUESTIONS, ask);
    const asking: KeptPrice = { price: answer.then(({ price }) => price), endsAt: undefined };
    this.#kept.set(key, asking);
    answer.then(
      ({ endsAt }) => {
        asking.endsAt = endsAt;
      },
      () => {
        if (this.#kept.peek(key) === asking) this.#kept.delete(key);
      },
    );
    return asking.price;
  }
}
