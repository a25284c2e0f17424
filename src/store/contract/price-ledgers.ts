import type { JobKey } from "../../core/job-call.ts";

/** The prices that clients were offered, so that they stay payable over changes, restarts and replicas. */
export interface OfferLedger {
  /** Writes new ones down; one that is there keeps the later of its ends. Those that have ended are forgotten. */
  saveOffers(offers: readonly NewOffer[]): Promise<void>;
  /** Those of one job that have not ended, the one that ends last first. */
  findOffers(job: JobKey): Promise<SavedOffer[]>;
}

interface KnownOffer {
  readonly id: string;
  readonly job: JobKey;
  /** JSON */
  readonly offer: string;
}

export interface NewOffer extends KnownOffer {
  /** How long from now on, by the store's clock: whose clock the offer was made by does not matter. */
  readonly validForMs: number;
}

export interface SavedOffer extends KnownOffer {
  /** By the store's clock, Unix milliseconds. */
  readonly validUntil: number;
}

/** Signed quotes of the pricing engine that can be paid, once each, until they expire. */
export interface QuoteLedger {
  /** Writes a quote down. A digest that is there already keeps what was written first, which is given back. */
  saveQuote(quote: SavedQuote): Promise<SavedQuote>;
  /** `isPaid`: a payment with this digest as its receipt was or may have been made. Expired quotes are forgotten. */
  findQuote(digest: string): Promise<(SavedQuote & { readonly isPaid: boolean }) | undefined>;
}

export interface SavedQuote {
  /** EIP-712 digest, 64 lower-case hex digits. */
  readonly digest: string;
  /** JSON */
  readonly quote: string;
  /** Unix milliseconds. */
  readonly expiresAt: number;
}
