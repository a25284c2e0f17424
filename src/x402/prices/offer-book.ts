import { randomInt } from "node:crypto";
import type { Logger } from "pino";
import type { AcceptedToken } from "../../config/config.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";
import { equalInConstantTime } from "../../core/constant-time.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import type { OfferLedger } from "../../store/contract/price-ledgers.ts";
import { atTime, formatOffer, makeOffers, type Offer, type OfferTerms, parseOffer } from "../wire/offer.ts";
import { offerDigest } from "./price-source.ts";
import type { TokenRate, TokenRates } from "./token-rates.ts";

/**
 * Extra validity of a saved offer beyond what the client needs. During this time the offer need not be saved again, so
 * an offer that is made often costs one write per second.
 */
const SLACK_MS = 1000;

/** Bound on the offers remembered as saved. An evicted offer is saved once more. */
const MAX_REMEMBERED = 10_000;
/** Bound on the jobs whose last offers are kept, with the 402 that shows them: about 4 KB each. */
const MAX_JOBS = 1_000;

const NS_PER_MS = 1_000_000;

/**
 * Minimum saved validity of an offer that is shown while it is being extended. For an offer with a short lifetime, the
 * minimum is half the lifetime.
 */
const MIN_VALID_MS = 60_000;

/** An offer that this process saved. */
interface SavedOffer {
  readonly id: string;
  /** Time until which the offer is saved, in Unix milliseconds on this process's clock; 0 if it was never saved. */
  validUntil: number;
  /** The write that extends the offer; never rejects. */
  saving?: Promise<void> | undefined;
}

/** The offers that were last made for a job, with the terms and rates that they depend on. */
interface MadeOffers {
  readonly terms: OfferTerms;
  readonly rates: ReadonlyMap<AcceptedToken, TokenRate | undefined>;
  readonly offers: readonly Offer[];
  /** Saved states, one for each offer. */
  readonly saved: readonly SavedOffer[];
}

interface Parts {
  readonly ledger: OfferLedger;
  readonly rates: Pick<TokenRates, "rateOf">;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Offers made to clients. Each stays payable for its lifetime, across price changes, restarts and replicas. */
export class OfferBook {
  readonly #parts: Parts;
  readonly #saved = boundedCache<string, SavedOffer>(MAX_REMEMBERED);
  readonly #made = boundedCache<string, MadeOffers>(MAX_JOBS);
  #lastDigestNs = 0n;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Makes offers, each saved before any client can see it. An offer that is already saved is extended in the background, so
   * that a stalled store delays only new offers. Returns no offers if no token can be offered. Returns the same array as
   * before while terms and rates do not change, so that callers can cache values by the array.
   */
  async make(terms: OfferTerms): Promise<readonly Offer[]> {
    const made = this.#madeFor(terms);
    const ttlMs = terms.ttlSecs * 1000;
    const neededUntil = this.#parts.clock() + ttlMs;
    if (made.saved.some(({ saving, validUntil }) => saving === undefined && validUntil < neededUntil)) {
      this.#save(made, neededUntil);
    }
    const minValidMs = Math.min(MIN_VALID_MS, ttlMs / 2);
    for (const saved of made.saved) {
      if (saved.validUntil < this.#parts.clock() + minValidMs) await saved.saving;
    }
    return made.offers;
  }

  /** Makes offers that are not saved. */
  makeUnsaved(terms: OfferTerms): readonly Offer[] {
    return makeOffers(terms, this.#parts.rates);
  }

  /** Returns the job's saved offers whose lifetime has not ended. */
  async findOpen(job: JobKey): Promise<Offer[]> {
    const saved = await this.#parts.ledger.findOffers(job);
    return saved.flatMap(({ offer }) => atTime(parseOffer(offer), this.#parts.clock()) ?? []);
  }

  /**
   * Returns a new digest for a purchase at an offer. The client shows the digest as a proof of payment. The nanoseconds that
   * the clock lacks are random, so that the time of the purchase does not reveal the digest.
   */
  newDigest({ job, priceWei }: Offer): string {
    const nowNs = BigInt(this.#parts.clock()) * BigInt(NS_PER_MS) + BigInt(randomInt(NS_PER_MS));
    const lastNs = this.#lastDigestNs;
    this.#lastDigestNs = nowNs > lastNs ? nowNs : lastNs + 1n + BigInt(randomInt(NS_PER_MS));
    return offerDigest(job, priceWei, this.#lastDigestNs);
  }

  #madeFor(terms: OfferTerms): MadeOffers {
    const { job, tokens } = terms;
    const key = jobKeyText(job.serviceId, job.jobIndex);
    const last = this.#made.get(key);
    if (last !== undefined && equalTerms(last.terms, terms) && this.#areCurrent(last.rates)) return last;
    // Each rate is read once, because it may expire between two reads of the clock.
    const rates = new Map(tokens.map((token) => [token, this.#parts.rates.rateOf(token)]));
    const offers = makeOffers(terms, { rateOf: (token) => rates.get(token) });
    const made = { terms, rates, offers, saved: offers.map((offer) => this.#savedOf(offer)) };
    this.#made.set(key, made);
    return made;
  }

  #areCurrent(rates: MadeOffers["rates"]): boolean {
    for (const [token, rate] of rates) {
      if (this.#parts.rates.rateOf(token)?.ratePerNativeUnit !== rate?.ratePerNativeUnit) return false;
    }
    return true;
  }

  #savedOf(offer: Offer): SavedOffer {
    const id = offerId(offer);
    const known = this.#saved.get(id);
    if (known !== undefined) return known;
    const saved: SavedOffer = { id, validUntil: 0 };
    this.#saved.set(id, saved);
    return saved;
  }

  /** Starts to save the offers whose saved validity ends before `neededUntil`. */
  #save({ terms, offers, saved }: MadeOffers, neededUntil: number): void {
    const { ttlSecs, endSecs } = terms;
    const now = this.#parts.clock();
    const ttlMs = ttlSecs * 1000 + SLACK_MS;
    const validForMs = endSecs === undefined ? ttlMs : Math.min(ttlMs, endSecs * 1000 - now);
    const entries: SavedOffer[] = [];
    const newOffers = offers.flatMap((offer, i) => {
      const entry = saved[i] as SavedOffer;
      if (entry.saving !== undefined || entry.validUntil >= neededUntil) return [];
      entries.push(entry);
      return { id: entry.id, job: offer.job, offer: formatOffer(offer), validForMs };
    });
    const saving = this.#parts.ledger.saveOffers(newOffers).then(
      () => {
        for (const entry of entries)
          Object.assign(entry, { validUntil: now + validForMs, saving: undefined });
      },
      (error: unknown) => {
        for (const entry of entries) entry.saving = undefined;
        // The offer stays payable while prices stay as they are. A payment without a working store is refused anyway.
        this.#parts.logger.warn({ err: error }, "could not save an offer");
      },
    );
    for (const entry of entries) entry.saving = saving;
  }
}

/** Reports whether two terms for one job lead to the same offers. */
function equalTerms(left: OfferTerms, right: OfferTerms): boolean {
  return (
    left.priceWei === right.priceWei &&
    left.ttlSecs === right.ttlSecs &&
    left.digest === right.digest &&
    left.endSecs === right.endSecs &&
    left.confidentiality === right.confidentiality &&
    left.onFailure === right.onFailure &&
    left.tokens === right.tokens &&
    left.charge === right.charge
  );
}

/** Returns a text that is equal for equal offers. */
function offerId(offer: Offer): string {
  const { job, token, amount, ttlSecs, digest, onFailure, charge, scheme, extra, chargesBack } = offer;
  const { network, asset, payTo, transferMethod, eip3009 } = token;
  const key = jobKeyText(job.serviceId, job.jobIndex);
  // The remaining lifetime of an offer that ends with its price changes all the time, but the offer's digest does not
  // change.
  const lifetime = digest ?? ttlSecs;
  const terms = [amount, lifetime, onFailure, charge, ...(scheme === undefined ? [] : [scheme, extra])];
  if (chargesBack !== undefined) terms.push(chargesBack.kind);
  return JSON.stringify([key, network, asset, payTo, transferMethod, eip3009, ...terms]);
}

/** Field of an offer's `extra` that has its seal. */
const SEALED_OFFER = "sealedOffer";

/** Names of the headers that a request's hash covers. A seal keeps them, so a reload does not change what an offer is bound to. */
export interface HashedParts {
  /** Names of the headers that the request is bound to; undefined at a job's IDs. */
  readonly boundHeaders: string | undefined;
  /** Names of the headers that the price depends on. */
  readonly headers: readonly string[];
}

/** Makes a seal that only holders of the store's secret can make. */
export interface Seals {
  seal(text: string): string;
}

/**
 * Offers for one request. An offer is sealed with the store's secret and travels with the client, so every replica recognises
 * the offer, and the store keeps nothing of a request that may never be paid.
 */
export class SealedOffers {
  readonly #seals: Seals;

  constructor(seals: Seals) {
    this.#seals = seals;
  }

  /** @param hash hash of the parts of the request that the offer is for */
  seal(offer: Offer, { boundHeaders, headers }: HashedParts, hash: string): Offer {
    const parts = JSON.stringify({ boundHeaders, headers, hash });
    const text = Buffer.from(`${parts}\n${formatOffer(offer)}`).toString("base64url");
    return { ...offer, extra: { ...offer.extra, [SEALED_OFFER]: `${text}.${this.#sealOf(text)}` } };
  }

  /** Seals an offer that no request can buy, even after a reload. */
  sealForNone(offer: Offer): Offer {
    return this.seal(offer, { boundHeaders: undefined, headers: [] }, "no request");
  }

  /**
   * Returns the offer in the `extra` of a payment.
   * @param hashOf hashes parts of the payment's request; undefined if those parts do not suffice
   * @returns undefined for an offer that was not made here, or was made for another request; "none" if the payment has no
   *   sealed offer
   */
  open(
    extra: Readonly<Record<string, unknown>> | undefined,
    hashOf: (parts: HashedParts) => string | undefined,
  ): Offer | "none" | undefined {
    const sealed = extra?.[SEALED_OFFER];
    if (sealed === undefined) return "none";
    if (typeof sealed !== "string") return undefined;
    const [text = "", seal = "", ...more] = sealed.split(".");
    // The text is used only after this check, because the header names in it determine how long hashing takes.
    if (more.length > 0 || !equalInConstantTime(seal, this.#sealOf(text))) return undefined;
    const [parts = "", terms = ""] = Buffer.from(text, "base64url").toString().split("\n", 2);
    const { hash, boundHeaders, headers } = JSON.parse(parts) as HashedParts & { readonly hash: string };
    if (hashOf({ boundHeaders, headers }) !== hash) return undefined;
    const offer = parseOffer(terms);
    return { ...offer, extra: { ...offer.extra, [SEALED_OFFER]: sealed } };
  }

  #sealOf(text: string): string {
    return this.#seals.seal(`offer for one request\n${text}`);
  }
}
