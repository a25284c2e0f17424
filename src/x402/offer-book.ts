import type { Logger } from "pino";
import type { Clock } from "../clock.ts";
import { jobKeyText } from "../config/config.ts";
import type { JobKey } from "../job-call.ts";
import type { OfferLedger, SavedOffer } from "../store/store.ts";
import { makeOffers, type Offer, type OfferTerms } from "./offer.ts";

export interface OfferBookOptions {
  readonly ledger: OfferLedger;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** An offer that is no longer made, but was, and so is honoured until it ends. */
interface PastOffer {
  readonly offer: Offer;
  /** Unix milliseconds. */
  readonly validUntil: number;
}

/**
 * What jobgate asks for each job now, and what it asked not long ago: an offer stays payable for its time, over
 * changed prices and restarts.
 */
export class OfferBook {
  readonly #options: OfferBookOptions;
  readonly #current = new Map<string, readonly Offer[]>();
  readonly #past = new Map<string, PastOffer[]>();

  constructor(options: OfferBookOptions) {
    this.#options = options;
  }

  /**
   * Takes back what was on offer before a restart. When each was last made is not known, only that it was before
   * now: so each gets its whole time again.
   */
  async load(): Promise<void> {
    for (const { offer: text, validUntil } of await this.#options.ledger.loadOffers()) {
      const offer = parseOffer(text);
      this.#remember(offer, validUntil ?? this.#endOf(offer));
    }
  }

  /** Replaces everything that is on offer, and makes that durable before any client can see it. */
  async publish(terms: readonly OfferTerms[]): Promise<void> {
    const fresh = new Map(terms.map((term) => [keyOf(term.job), makeOffers(term)]));
    const saved: SavedOffer[] = [];
    const freshIds = new Set<string>();
    for (const offer of [...fresh.values()].flat()) {
      freshIds.add(offerId(offer));
      saved.push({ id: offerId(offer), offer: formatOffer(offer), validUntil: null });
    }
    for (const offer of [...this.#current.values()].flat()) {
      if (!freshIds.has(offerId(offer))) this.#remember(offer, this.#endOf(offer));
    }
    const honoured = [...this.#latestPast()].filter(([id]) => !freshIds.has(id));
    for (const [id, { offer, validUntil }] of honoured)
      saved.push({ id, offer: formatOffer(offer), validUntil });
    await this.#options.ledger.saveOffers(saved);
    this.#past.clear();
    for (const [, { offer, validUntil }] of honoured) this.#remember(offer, validUntil);
    this.#current.clear();
    for (const [key, offers] of fresh) this.#current.set(key, offers);
    this.#options.logger.info({ offers: freshIds.size, honoured: honoured.length }, "offers published");
  }

  /** What a client is offered now. */
  current(job: JobKey): readonly Offer[] {
    return this.#current.get(keyOf(job)) ?? [];
  }

  /** What a payment may answer: the current offers first, then those whose time has not ended. */
  payable(job: JobKey): Offer[] {
    const now = this.#options.clock();
    const past = (this.#past.get(keyOf(job)) ?? []).filter(({ validUntil }) => validUntil > now);
    if (past.length === 0) this.#past.delete(keyOf(job));
    else this.#past.set(keyOf(job), past);
    return [...this.current(job), ...past.map(({ offer }) => offer)];
  }

  #endOf({ ttlSecs }: Offer): number {
    return this.#options.clock() + ttlSecs * 1000;
  }

  #remember(offer: Offer, validUntil: number): void {
    const key = keyOf(offer.job);
    this.#past.set(key, [...(this.#past.get(key) ?? []), { offer, validUntil }]);
  }

  /** Past offers that have not ended, each once, with the latest end that it was given. */
  #latestPast(): Map<string, PastOffer> {
    const now = this.#options.clock();
    const latest = new Map<string, PastOffer>();
    for (const past of [...this.#past.values()].flat()) {
      const id = offerId(past.offer);
      if (past.validUntil > now && past.validUntil > (latest.get(id)?.validUntil ?? 0)) latest.set(id, past);
    }
    return latest;
  }
}

function keyOf({ serviceId, jobIndex }: JobKey): string {
  return jobKeyText(serviceId, jobIndex);
}

/** Everything that makes two offers the same to a client. */
function offerId({ job, token, amount, ttlSecs }: Offer): string {
  const { network, asset, payTo, transferMethod, eip3009 } = token;
  return JSON.stringify([keyOf(job), network, asset, payTo, transferMethod, eip3009, amount, ttlSecs]);
}

function formatOffer(offer: Offer): string {
  const { job, priceWei } = offer;
  return JSON.stringify({
    ...offer,
    priceWei: priceWei.toString(),
    job: { serviceId: job.serviceId.toString(), jobIndex: job.jobIndex },
  });
}

function parseOffer(text: string): Offer {
  const { job, priceWei, ...rest } = JSON.parse(text);
  return {
    ...rest,
    priceWei: BigInt(priceWei),
    job: { serviceId: BigInt(job.serviceId), jobIndex: job.jobIndex },
  };
}
