import { boundedCache } from "../../core/bounded-cache.ts";
import type { PurchaseName } from "../../core/payment.ts";
import { buysTheSame, type PaymentOutcome, type PurchaseIdentity } from "./payment-outcome.ts";

/** Largest number of payments left undecided whose fingerprints are kept. */
const MAX_LEFT = 10_000;

interface Purchase {
  readonly purchase: PurchaseIdentity;
  readonly outcome: Promise<PaymentOutcome>;
}

/** A purchase in progress under a name. */
interface Turn {
  /** Checks that the payer signed the payment of the purchase. */
  readonly isSigned: () => Promise<boolean>;
  readonly ended: Promise<void>;
}

/**
 * Payments that this process is working on now. A client that sends one payment several times at once gets the same
 * outcome each time. Across processes and restarts, the store decides.
 */
export class PaymentsInProgress {
  /** Purchases by fingerprint, because requests with one payment may be for different purchases. */
  readonly #purchases = new Map<string, readonly Purchase[]>();
  readonly #byName = new Map<string, Turn>();
  readonly #left = boundedCache<string, true>(MAX_LEFT);

  has(fingerprint: string): boolean {
    return this.#purchases.has(fingerprint);
  }

  /** Returns the purchase for which the payment is being used; the oldest purchase if there are several. */
  find(fingerprint: string): PurchaseIdentity | undefined {
    return this.#purchases.get(fingerprint)?.[0]?.purchase;
  }

  /** Returns true if a request of this process requested the settlement and left the payment undecided. */
  wasLeftUndecided(fingerprint: string): boolean {
    return this.#left.has(fingerprint);
  }

  /**
   * Buys, or waits for the same purchase if that is in progress. If the payment is in progress for another job, body or
   * notes, this purchase also runs, because only the journal decides which purchase gets the payment.
   * @throws GatewayError errors of `buy`
   */
  async join(purchase: PurchaseIdentity, buy: () => Promise<PaymentOutcome>): Promise<PaymentOutcome> {
    const { fingerprint } = purchase;
    const others = this.#purchases.get(fingerprint) ?? [];
    const same = others.find((other) => buysTheSame(other.purchase, purchase));
    if (same !== undefined) return { ...(await same.outcome), replayed: true };
    const outcome = this.#work(purchase, buy);
    this.#purchases.set(fingerprint, [...others, { purchase, outcome }]);
    return outcome;
  }

  /**
   * Buys once this process works on no other payment of the same payer under the same name, because the outcome of that
   * payment may apply to this purchase. A payment without the payer's signature neither waits nor blocks others.
   */
  async inTurn(
    { payer, name }: PurchaseName,
    isSigned: () => Promise<boolean>,
    buy: () => Promise<PaymentOutcome>,
  ): Promise<PaymentOutcome> {
    const turns = this.#byName;
    const key = `${payer} ${name}`;
    let before = turns.get(key);
    if (before !== undefined && !(await isSigned())) return buy();
    while (before !== undefined && (await before.isSigned())) {
      await before.ended;
      before = turns.get(key);
    }
    let signed: Promise<boolean> | undefined;
    let end = () => {};
    const turn: Turn = {
      isSigned: () => {
        signed ??= isSigned();
        return signed;
      },
      ended: new Promise<void>((resolve) => {
        end = resolve;
      }),
    };
    turns.set(key, turn);
    try {
      return await buy();
    } finally {
      if (turns.get(key) === turn) turns.delete(key);
      end();
    }
  }

  async #work(purchase: PurchaseIdentity, buy: () => Promise<PaymentOutcome>): Promise<PaymentOutcome> {
    const { fingerprint } = purchase;
    try {
      const outcome = await buy();
      if (outcome.kind === "undecided" && !outcome.replayed) this.#left.set(fingerprint, true);
      return outcome;
    } finally {
      const others = this.#purchases.get(fingerprint)?.filter((other) => other.purchase !== purchase) ?? [];
      if (others.length > 0) this.#purchases.set(fingerprint, others);
      else this.#purchases.delete(fingerprint);
    }
  }
}
