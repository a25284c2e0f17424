import { LRUCache } from "lru-cache";
import type { Logger } from "pino";
import type { Clock } from "../../core/clock.ts";
import type { JobKey } from "../../core/job-call.ts";
import { jobKeyText } from "../../core/job-call.ts";
import type { OfferLedger } from "../../store/contract/price-ledgers.ts";
import { formatOffer, makeOffers, type Offer, type OfferTerms, parseOffer } from "../wire/offer.ts";

export interface OfferBookOptions {
  readonly ledger: OfferLedger;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** What was offered to clients: an offer stays payable for its time, over changed prices, restarts and replicas. */
export interface OfferBook {
  /** Makes offers: written down before any client can see them. Empty when no token can be asked for. */
  make(terms: OfferTerms): Promise<readonly Offer[]>;
  /** Offers for a job that were made not longer ago than their time. */
  madeBefore(job: JobKey): Promise<Offer[]>;
}

/**
 * An offer is written down with an end this much later than the client needs, and so not again for as long: however
 * often it is made, it costs one write in this time.
 */
const SLACK_MS = 1000;

/** Offers that are known to be written down. One that is forgotten here is written once more. */
const MAX_REMEMBERED = 10_000;

interface Written {
  /** By this gateway's clock, Unix milliseconds: it only tells for how long what was written is enough. */
  readonly validUntil: number;
  readonly durable: Promise<void>;
}

export function createOfferBook({ ledger, clock, logger }: OfferBookOptions): OfferBook {
  const written = new LRUCache<string, Written>({ max: MAX_REMEMBERED });

  function write(offers: readonly Offer[], validForMs: number): Promise<void> {
    const validUntil = clock() + validForMs;
    const saved = offers.map((offer) => ({
      id: offerId(offer),
      job: offer.job,
      offer: formatOffer(offer),
      validForMs,
    }));
    const durable = ledger.saveOffers(saved).catch((error: unknown) => {
      for (const { id } of saved) written.delete(id);
      // The client may pay it all the same, as long as prices stay; and the payment itself is refused without a store.
      logger.warn({ err: error }, "an offer was made, but could not be written down");
    });
    for (const { id } of saved) written.set(id, { validUntil, durable });
    return durable;
  }

  return {
    async make(terms) {
      const offers = makeOffers(terms);
      const ttlMs = terms.ttlSecs * 1000;
      const needed = clock() + ttlMs;
      const stale = offers.filter((offer) => (written.get(offerId(offer))?.validUntil ?? 0) < needed);
      if (stale.length > 0) void write(stale, ttlMs + SLACK_MS);
      for (const offer of offers) await written.get(offerId(offer))?.durable;
      return offers;
    },

    async madeBefore(job) {
      const saved = await ledger.findOffers(job);
      return saved.map(({ offer }) => parseOffer(offer));
    },
  };
}

/** Everything that makes two offers the same. */
function offerId({ job, token, amount, ttlSecs, quoteDigest }: Offer): string {
  const { network, asset, payTo, transferMethod, eip3009 } = token;
  const key = jobKeyText(job.serviceId, job.jobIndex);
  return JSON.stringify([
    key,
    network,
    asset,
    payTo,
    transferMethod,
    eip3009,
    amount,
    ttlSecs,
    ...(quoteDigest === undefined ? [] : [quoteDigest]),
  ]);
}
