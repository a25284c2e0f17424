import type { Logger } from "pino";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import { type JobPrice, type PriceSource, priceUnavailable } from "../../x402/prices/price-source.ts";
import { secsUntil } from "../../x402/wire/offer.ts";

/** A payment needs 6 s to be verified, settled and mined, and the client some time to sign it. */
const UNPAYABLE_SECS = 7;

/** Bound on the jobs remembered as logged. */
const MAX_REMEMBERED = 10_000;

/** Checks that quotes leave enough time to be paid. Each failure is logged once for each job. */
export class QuoteEnds {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #tooShort = boundedCache<string, true>(MAX_REMEMBERED);

  constructor({ clock, logger }: { readonly clock: Clock; readonly logger: Logger }) {
    this.#clock = clock;
    this.#logger = logger;
  }

  /** @param endSecs end of a quote, Unix seconds */
  lastsLongEnough(job: JobKey, endSecs: number): boolean {
    const key = jobKeyText(job.serviceId, job.jobIndex);
    const secsLeft = secsUntil(endSecs, this.#clock());
    if (secsLeft > UNPAYABLE_SECS) return true;
    if (!this.#tooShort.has(key)) {
      this.#tooShort.set(key, true);
      this.#logger.warn(
        { job: key, secsLeft },
        `the pricing engine's quote ends in ${UNPAYABLE_SECS} s or less, too soon to be paid: the job is not offered at it`,
      );
    }
    return false;
  }

  /** Returns a source of the prices that last long enough. */
  lasting(source: PriceSource): PriceSource {
    return {
      priceOf: async (job) => {
        const price = await source.priceOf(job);
        if (price?.endSecs === undefined || this.lastsLongEnough(job, price.endSecs)) return price;
        throw endsTooSoon();
      },
    };
  }
}

/** @throws GatewayError `price_unavailable` for a price that ends too soon to be paid */
export function requireLasting({ endSecs }: JobPrice, clock: Clock): void {
  if (endSecs !== undefined && secsUntil(endSecs, clock()) <= UNPAYABLE_SECS) throw endsTooSoon();
}

function endsTooSoon() {
  return priceUnavailable("the pricing engine's quote ends too soon to be paid");
}
