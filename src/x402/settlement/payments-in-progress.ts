import { LRUCache } from "lru-cache";
import { type PaymentOutcome, type PurchaseIdentity, requireSamePurchase } from "./payment-outcome.ts";

/** Payments left undecided whose fingerprints are kept. */
const MAX_LEFT = 10_000;

/**
 * Payments that this process is working on now. A client that sends one payment several times at once gets the same
 * outcome each time. Across processes and restarts, the store decides.
 */
export class PaymentsInProgress {
  readonly #byFingerprint = new Map<
    string,
    { readonly purchase: PurchaseIdentity; readonly outcome: Promise<PaymentOutcome> }
  >();
  readonly #left = new LRUCache<string, true>({ max: MAX_LEFT });

  has(fingerprint: string): boolean {
    return this.#byFingerprint.has(fingerprint);
  }

  /** Tells whether a request of this process asked for the settlement and had to leave it undecided. */
  wasLeftUndecided(fingerprint: string): boolean {
    return this.#left.has(fingerprint);
  }

  /**
   * Buys, or waits for the same purchase if that is in progress.
   * @throws GatewayError `payment_replay` when the payment in progress is for another job or body; errors of `buy`
   */
  async join(purchase: PurchaseIdentity, buy: () => Promise<PaymentOutcome>): Promise<PaymentOutcome> {
    const { fingerprint } = purchase;
    const existing = this.#byFingerprint.get(fingerprint);
    if (existing !== undefined) {
      requireSamePurchase(existing.purchase, purchase);
      return { ...(await existing.outcome), replayed: true };
    }
    const outcome = this.#work(fingerprint, buy);
    this.#byFingerprint.set(fingerprint, { purchase, outcome });
    return outcome;
  }

  async #work(fingerprint: string, buy: () => Promise<PaymentOutcome>): Promise<PaymentOutcome> {
    try {
      const outcome = await buy();
      if (outcome.kind === "undecided" && !outcome.replayed) this.#left.set(fingerprint, true);
      return outcome;
    } finally {
      this.#byFingerprint.delete(fingerprint);
    }
  }
}
