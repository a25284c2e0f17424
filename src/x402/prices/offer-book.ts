import { randomInt } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Logger } from "pino";
import type { Clock } from "../../core/clock.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import { quoteDigest } from "../../pricing/price-source.ts";
import type { RateBoard } from "../../pricing/rates/rate-board.ts";
import type { OfferLedger } from "../../store/contract/price-ledgers.ts";
import { atTime, formatOffer, makeOffers, type Offer, type OfferTerms, parseOffer } from "../wire/offer.ts";

/**
 * Extra validity of a saved offer beyond what the client needs. The offer need not be saved again for as long, so an
 * offer that is made often costs one write per second.
 */
const SLACK_MS = 1000;

/** Bound on the offers remembered as saved. An evicted one is saved once more. */
const MAX_REMEMBERED = 10_000;

const NS_PER_MS = 1_000_000;

/**
 * Validity that must be saved of an offer that is shown while it is being extended. Half the lifetime of offers that
 * end sooner.
 */
const MIN_VALID_MS = 60_000;

/** An offer that this process saved. */
interface SavedOffer {
  /** Unix milliseconds by this process's clock until which it is saved; 0 while it never was. */
  validUntil: number;
  /** The write that extends it; never rejects. */
  saving?: Promise<void> | undefined;
}

/** Offers made to clients. Each stays payable for its lifetime, across price changes, restarts and replicas. */
export class OfferBook {
  readonly #ledger: OfferLedger;
  readonly #rates: Pick<RateBoard, "rateOf">;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #saved = new LRUCache<string, SavedOffer>({ max: MAX_REMEMBERED });
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

  /**
   * Makes offers, each saved before any client can see it. An offer that is saved already is extended in the
   * background, so that a store that stalls holds up only new offers. Returns none if no token can be offered.
   */
  async make(terms: OfferTerms): Promise<readonly Offer[]> {
    const offers = makeOffers(terms, this.#rates);
    const neededUntil = this.#clock() + terms.ttlSecs * 1000;
    const stale = offers.filter((offer) => {
      const saved = this.#saved.get(offerId(offer));
      return saved === undefined || (saved.saving === undefined && saved.validUntil < neededUntil);
    });
    if (stale.length > 0) this.#save(stale, terms);
    const minValidMs = Math.min(MIN_VALID_MS, (terms.ttlSecs * 1000) / 2);
    for (const offer of offers) {
      const saved = this.#saved.get(offerId(offer));
      if (saved !== undefined && saved.validUntil < this.#clock() + minValidMs) await saved.saving;
    }
    return offers;
  }

  /** Returns the job's saved offers whose lifetime has not ended. */
  async findOpen(job: JobKey): Promise<Offer[]> {
    const saved = await this.#ledger.findOffers(job);
    return saved.flatMap(({ offer }) => atTime(parseOffer(offer), this.#clock()) ?? []);
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

  #save(offers: readonly Offer[], { ttlSecs, quoteExpiry }: OfferTerms): void {
    const now = this.#clock();
    const ttlMs = ttlSecs * 1000 + SLACK_MS;
    const validForMs = quoteExpiry === undefined ? ttlMs : Math.min(ttlMs, quoteExpiry * 1000 - now);
    const newOffers = offers.map((offer) => ({
      id: offerId(offer),
      job: offer.job,
      offer: formatOffer(offer),
      validForMs,
    }));
    const entries = newOffers.map(({ id }) => {
      const entry: SavedOffer = { validUntil: this.#saved.get(id)?.validUntil ?? 0 };
      this.#saved.set(id, entry);
      return entry;
    });
    const saving = this.#ledger.saveOffers(newOffers).then(
      () => {
        for (const entry of entries)
          Object.assign(entry, { validUntil: now + validForMs, saving: undefined });
      },
      (error: unknown) => {
        for (const entry of entries) entry.saving = undefined;
        // The offer stays payable while prices stay as they are. A payment without a working store is refused anyway.
        this.#logger.warn({ err: error }, "could not save an offer");
      },
    );
    for (const entry of entries) entry.saving = saving;
  }
}

/** Everything that makes two offers the same. */
function offerId({ job, token, amount, ttlSecs, quoteDigest: digest }: Offer): string {
  const { network, asset, payTo, transferMethod, eip3009 } = token;
  const key = jobKeyText(job.serviceId, job.jobIndex);
  // The remaining lifetime of a quote's offer changes all the time; its digest does not.
  const lifetime = digest ?? ttlSecs;
  return JSON.stringify([key, network, asset, payTo, transferMethod, eip3009, amount, lifetime]);
}
