import type { JobKey } from "../../core/job-call.ts";

/** Offers made to clients, kept so that they stay payable over price changes, restarts and replicas. */
export interface OfferLedger {
  /** Saves offers; one that exists already keeps the later of both ends. Deletes offers that have ended. */
  saveOffers(offers: readonly NewOffer[]): Promise<void>;
  /** Returns one job's offers that have not ended, the one that ends last first. */
  findOffers(job: JobKey): Promise<SavedOffer[]>;
}

interface KnownOffer {
  readonly id: string;
  readonly job: JobKey;
  /** JSON */
  readonly offer: string;
}

export interface NewOffer extends KnownOffer {
  /** Validity from now on, by the store's clock, so that the clock of the process that made the offer is irrelevant. */
  readonly validForMs: number;
}

export interface SavedOffer extends KnownOffer {
  /** Unix milliseconds, by the store's clock. */
  readonly validUntil: number;
}

/** Signed quotes of the pricing engine. Each can be paid once, until it expires. */
export interface QuoteLedger {
  /** Saves a quote. If the digest exists already, the first quote stays and is returned. */
  saveQuote(quote: SavedQuote): Promise<SavedQuote>;
  /** `isPaid`: a payment that redeems this quote was or may have been made. Expired quotes are not found. */
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
