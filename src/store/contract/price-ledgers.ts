import type { JobKey } from "../../core/job-call.ts";

/** Offers made to clients, kept so that they stay payable over price changes, restarts and replicas. */
export interface OfferLedger {
  /** Saves offers. If an offer is already saved, it keeps the later of its two ends. Deletes expired offers. */
  saveOffers(offers: readonly NewOffer[]): Promise<void>;
  /** Returns a job's offers that have not expired, sorted by their end, the latest first. */
  findOffers(job: JobKey): Promise<SavedOffer[]>;
}

interface KnownOffer {
  readonly id: string;
  readonly job: JobKey;
  /** JSON */
  readonly offer: string;
}

export interface NewOffer extends KnownOffer {
  /**
   * Validity from now on. The store's clock measures it, so that the clock of the process that made the offer does not
   * matter.
   */
  readonly validForMs: number;
}

export interface SavedOffer extends KnownOffer {
  /** Unix milliseconds, on the store's clock. */
  readonly validUntil: number;
}
