import { LRUCache } from "lru-cache";
import { equalJobs, type JobKey } from "../../core/job-call.ts";
import { type PaymentOutcome, paymentReplay } from "./payment-outcome.ts";

/** What tells whether two requests are the same purchase. */
export interface Purchase extends JobKey {
  readonly fingerprint: string;
  readonly bodyHash: string;
}

interface InHand {
  readonly purchase: Purchase;
  readonly outcome: Promise<PaymentOutcome>;
}

/** Payments that were left undecided, and are remembered. */
const MAX_LEFT = 10_000;

/**
 * Payments that this process is working on right now. A client that sends one payment many times at once gets the
 * one outcome many times; over processes and restarts the store decides.
 */
export class PaymentsInHand {
  readonly #byFingerprint = new Map<string, InHand>();
  readonly #left = new LRUCache<string, true>({ max: MAX_LEFT });

  has(fingerprint: string): boolean {
    return this.#byFingerprint.has(fingerprint);
  }

  /** Whether a request of this process asked for its settlement, and had to leave it undecided. */
  wasLeftUndecided(fingerprint: string): boolean {
    return this.#left.has(fingerprint);
  }

  /**
   * Buys, or waits for the same purchase that is in hand already.
   * @throws GatewayError `payment_replay` when the payment in hand is for another job or body; whatever `buy` throws
   */
  async join(purchase: Purchase, buy: () => Promise<PaymentOutcome>): Promise<PaymentOutcome> {
    const { fingerprint } = purchase;
    const existing = this.#byFingerprint.get(fingerprint);
    if (existing !== undefined) {
      if (!isSame(existing.purchase, purchase)) throw paymentReplay();
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

function isSame(left: Purchase, right: Purchase): boolean {
  return equalJobs(left, right) && left.bodyHash === right.bodyHash;
}
