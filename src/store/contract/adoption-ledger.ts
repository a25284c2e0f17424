import type { PaymentKey } from "../../core/payment.ts";

/**
 * Payments that the chain shows and the journal lacks, because an older copy of the store was restored. An adopted payment
 * enters the journal when its buyer sends it again, because only that request names the job that was bought.
 */
export interface AdoptionLedger {
  /**
   * Adopts a payment that is not in the journal. `changed` is false if the payment was already adopted. The first
   * adoption is then kept.
   */
  adoptPayment(adopted: AdoptedPayment): Promise<AdoptPaymentOutcome>;

  /**
   * Finds the adopted payments with a nonce of a payer. There can be several, because a nonce is unique only within
   * each token.
   */
  findAdoptedPayments(signed: Pick<PaymentKey, "payer" | "nonce">): Promise<AdoptedPayment[]>;
}

/** A payment that an operator adopted. */
export interface AdoptedPayment {
  readonly key: PaymentKey;
  readonly transferMethod: string;
  /** Lower case. */
  readonly payTo: string;
  /** Token units, decimal. */
  readonly amount: string;
  /** Hash, lower case. */
  readonly transaction: string;
  /** Block of the transaction. */
  readonly blockNumber: string;
  /** Name of the operator, as the request gives it. */
  readonly by: string;
  readonly note: string;
}

export type AdoptPaymentOutcome =
  | { readonly kind: "adopted"; readonly changed: boolean }
  /** The payment is in the journal. */
  | { readonly kind: "payment_known"; readonly callId: number };
