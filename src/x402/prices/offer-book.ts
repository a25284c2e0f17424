import { randomInt } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Logger } from "pino";
import type { Clock } from "../../core/clock.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import { quoteDigest } from "../../pricing/price-source.ts";
import type { RateBoard } from "../../pricing/rates/rate-board.ts";
import type { OfferLedger } from "../../store/contract/price-ledgers.ts";
import { formatOffer, makeOffers, type Offer, type OfferTerms, parseOffer } from "../wire/offer.ts";

/**
 * Extra validity of a saved offer beyond what the client needs. The offer need not be saved again for as long, so an
 * offer that is made often costs one write per second.
 */
const SLACK_MS = 1000;

/** Bound on the offers remembered as saved. An evicted one is saved once more. */
const MAX_REMEMBERED = 10_000;

const NS_PER_MS = 1_000_000;

/** Offers made to clients. Each stays payable for its lifetime, across price changes, restarts and replicas. */
export class OfferBook {
  readonly #ledger: OfferLedger;
  readonly #rates: Pick<RateBoard, "rateOf">;
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** Offers saved by this process. `validUntil` is in Unix milliseconds by its own clock. */
  readonly #saved = new LRUCache<string, { readonly validUntil: number; readonly durable: Promise<void> }>({
    max: MAX_REMEMBERED,
  });
  #lastDigestNs = 0n;

  constructor(parts: {
    readonly ledger: OfferLedger;
    readonly rates: Pick<RateBoard, "rateOf">;
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    this.#ledger = parts.ledger;
    this.#rates = parts.rates;
    this.#clock = parts.clock;
    this.#logger = parts.logger;
  }

  /** Makes offers and saves them before any client can see them. Returns none if no token can be offered. */
  async make(terms: OfferTerms): Promise<readonly Offer[]> {
    const offers = makeOffers(terms, this.#rates);
    const ttlMs = terms.ttlSecs * 1000;
    const needed = this.#clock() + ttlMs;
    const stale = offers.filter((offer) => (this.#saved.get(offerId(offer))?.validUntil ?? 0) < needed);
    if (stale.length > 0) this.#save(stale, ttlMs + SLACK_MS);
    for (const offer of offers) await this.#saved.get(offerId(offer))?.durable;
    return offers;
  }

  /** Returns the job's saved offers whose lifetime has not ended. */
  async findOpen(job: JobKey): Promise<Offer[]> {
    const saved = await this.#ledger.findOffers(job);
    return saved.map(({ offer }) => parseOffer(offer));
  }

  /**
   * Returns a digest for one purchase at an offer, different on each call. The client shows it as the proof that it
   * paid, so the nanoseconds that the clock lacks are random: the time of the purchase does not reveal the digest.
   */
  newDigest({ job, priceWei }: Offer): string {
    const nowNs = BigInt(this.#clock()) * BigInt(NS_PER_MS) + BigInt(randomInt(NS_PER_MS));
    const lastNs = this.#lastDigestNs;
    this.#lastDigestNs = nowNs > lastNs ? nowNs : lastNs + 1n + BigInt(randomInt(NS_PER_MS));
    return quoteDigest(job, priceWei, this.#lastDigestNs);
  }

  #save(offers: readonly Offer[], validForMs: number): void {
    const validUntil = this.#clock() + validForMs;
    const saved = offers.map((offer) => ({
      id: offerId(offer),
      job: offer.job,
      offer: formatOffer(offer),
      validForMs,
    }));
    const durable = this.#ledger.saveOffers(saved).catch((error: unknown) => {
      for (const { id } of saved) this.#saved.delete(id);
      // The offer stays payable while prices stay as they are. A payment without a working store is refused anyway.
      this.#logger.warn({ err: error }, "could not save an offer");
    });
    for (const { id } of saved) this.#saved.set(id, { validUntil, durable });
  }
}

/** Everything that makes two offers the same. */
function offerId({ job, token, amount, ttlSecs, quoteDigest: digest }: Offer): string {
  const { network, asset, payTo, transferMethod, eip3009 } = token;
  const key = jobKeyText(job.serviceId, job.jobIndex);
  const common = [key, network, asset, payTo, transferMethod, eip3009, amount, ttlSecs];
  return JSON.stringify(digest === undefined ? common : [...common, digest]);
}
