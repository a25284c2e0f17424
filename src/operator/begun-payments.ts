import { LRUCache } from "lru-cache";
import type { PaymentIntent, PaymentKey, PaymentState } from "../payment.ts";
import type { PaymentJournal } from "../store/store.ts";

/** A payment as it was when it was last looked at. */
export type BegunPayment = PaymentIntent & { readonly callId: number; readonly state: PaymentState };

/**
 * Remembers the payments that this process has begun until they are decided, so that what is told of a decision is
 * what it changed: by the time that the journal is asked, it may know the decision already.
 */
export interface BegunPayments {
  begun(payment: BegunPayment): void;
  decided(key: PaymentKey, state: PaymentState): void;
  /** What was begun elsewhere, or too long ago, is looked up. */
  find(key: PaymentKey): Promise<BegunPayment | undefined>;
}

const MAX_REMEMBERED = 10_000;

export function createBegunPayments(journal: Pick<PaymentJournal, "findPayment">): BegunPayments {
  const payments = new LRUCache<string, BegunPayment>({ max: MAX_REMEMBERED });
  return {
    begun: (payment) => void payments.set(textOf(payment.key), payment),
    decided(key, state) {
      const payment = payments.get(textOf(key));
      if (payment === undefined) return;
      if (state === "unresolved") payments.set(textOf(key), { ...payment, state });
      else payments.delete(textOf(key));
    },
    async find(key) {
      return payments.get(textOf(key)) ?? journal.findPayment(key);
    },
  };
}

function textOf({ network, asset, payer, nonce }: PaymentKey): string {
  return `${network} ${asset} ${payer} ${nonce}`;
}
