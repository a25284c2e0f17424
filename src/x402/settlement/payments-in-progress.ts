import { boundedCache } from "../../core/bounded-cache.ts";
import type { PurchaseName } from "../../core/payment.ts";
import { buysTheSame, type PaymentOutcome, type PurchaseIdentity } from "./payment-outcome.ts";

/** Payments left undecided whose fingerprints are kept. */
const MAX_LEFT = 10_000;

interface Purchase {
  readonly purchase: PurchaseIdentity;
  readonly outcome: Promise<PaymentOutcome>;
}

/** A purchase in progress under a name. */
interface Turn {
  /** Checks that its payment is the payer's own. */
  readonly isSigned: () => Promise<boolean>;
  readonly ended: Promise<void>;
}

/**
 * Payments that this process is working on now. A client that sends one payment several times at once gets the same
 * outcome each time. Across processes and restarts, the store decides.
 */
export class PaymentsInProgress {
  /** Keyed by fingerprint: requests with one payment may ask for different things. */
  readonly #purchases = new Map<string, readonly Purchase[]>();
  readonly #byName = new Map<string, Turn>();
  readonly #left = boundedCache<string, true>(MAX_LEFT);

  has(fingerprint: string): boolean {
    return this.#purchases.has(fingerprint);
  }

  /** Returns what the payment is being used for; the oldest request, if there are several. */
  find(fingerprint: string): PurchaseIdentity | undefined {
    return this.#purchases.get(fingerprint)?.[0]?.purchase;
  }

  /** Reports whether a request of this process asked for the settlement and had to leave it undecided. */
  wasLeftUndecided(fingerprint: string): boolean {
    return this.#left.has(fingerprint);
  }

  /**
   * Buys, or waits for the same purchase if that is in progress. With the payment in progress for another job or
   * body, or with other notes, it buys too: only the journal knows which of them the payment was taken for.
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
   * Buys once this process works on no other payment of the same payer under the same name, whose outcome may be
   * this one's too. A payment without the payer's signature neither waits nor blocks others.
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
