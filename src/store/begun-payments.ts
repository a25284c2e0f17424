import { LRUCache } from "lru-cache";
import type { PaymentIntent, PaymentKey } from "../core/payment.ts";
import type { PaymentJournal } from "./contract/payment-journal.ts";

export type BegunPayment = PaymentIntent & { readonly callId: number };

/** Remembers the payments that this process has begun until they are decided: to tell of that needs no look at the journal. */
export interface BegunPayments {
  begun(payment: BegunPayment): void;
  /** It will not be asked for again. */
  decided(key: PaymentKey): void;
  /** What was begun elsewhere, or too long ago, is looked up. */
  find(key: PaymentKey): Promise<BegunPayment | undefined>;
}

const MAX_REMEMBERED = 10_000;

export function createBegunPayments(journal: Pick<PaymentJournal, "findPayment">): BegunPayments {
  const payments = new LRUCache<string, BegunPayment>({ max: MAX_REMEMBERED });
  return {
    begun: (payment) => void payments.set(textOf(payment.key), payment),
    decided: (key) => void payments.delete(textOf(key)),
    async find(key) {
      return payments.get(textOf(key)) ?? journal.findPayment(key);
    },
  };
}

function textOf({ network, asset, payer, nonce }: PaymentKey): string {
  return `${network} ${asset} ${payer} ${nonce}`;
}
