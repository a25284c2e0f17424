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
