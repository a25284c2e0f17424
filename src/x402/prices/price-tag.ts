import type { Offer } from "../wire/offer.ts";
import type { SignedPayment } from "../wire/payment-header.ts";

/** What one request has to pay for a job: the list price, or that of a quote which it names. */
export interface PriceTag {
  /**
   * What a 402 shows.
   * @throws GatewayError when there is nothing to show
   */
  offers(): Promise<readonly Offer[]>;
  /**
   * The offer that a payment answers.
   * @throws GatewayError `payment_mismatch`, and whatever speaks against the price itself
   */
  answeredBy(payment: SignedPayment): Promise<Offer>;
  /**
   * To be asked last before the money moves: what came between may have taken longer than the price holds.
   * @throws GatewayError when it holds no longer
   */
  checkOpen(): Promise<void>;
  /** What stands for the purchase, once one of the offers is paid. */
  receiptOf(offer: Offer): Receipt;
}

export interface Receipt {
  /** The quote digest that the runner is told. */
  readonly quoteDigest: string;
  /** What the client asks for its call with: the quote digest. */
  readonly receipt: string;
  /** The same, if another payment has the quote digest already. */
  readonly spareReceipt?: string;
}
