import { GatewayError } from "../../core/errors.ts";
import { oneSpelling } from "../../core/payment.ts";
import type { AdoptedPayment, AdoptionLedger } from "../../store/contract/adoption-ledger.ts";
import type { SignedPayment } from "../methods/method.ts";
import type { Price } from "../prices/price.ts";
import { isSignedByPayer } from "../wire/match-offer.ts";
import { type Offer, schemeOf } from "../wire/offer.ts";
import type { Verification, VerifiedPayment } from "./verification.ts";

/** An adopted payment that answers an offer. The chain shows that the payment was made. */
export type AdoptedSale = VerifiedPayment & { readonly paidIn: string };

/** Payments that an operator adopted after an older copy of the store was restored. */
export class AdoptedPayments {
  readonly #ledger: AdoptionLedger;
  readonly #verification: Pick<Verification, "requirementsOf">;

  constructor(parts: {
    readonly ledger: AdoptionLedger;
    readonly verification: Pick<Verification, "requirementsOf">;
  }) {
    this.#ledger = parts.ledger;
    this.#verification = parts.verification;
  }

  /**
   * Finds the adoption of a payment that was refused, because its authorization was used or has ended, because its offer is
   * no longer open, or because its facilitator finds it invalid, as facilitators do after the money has moved. An adopted
   * payment buys any job at whose price it is the exact amount.
   * @param offer the offer that the payment answers; undefined if it answers no offer
   * @throws GatewayError the refusal, if the payment is not adopted, or not for this price
   */
  async find(
    refusal: unknown,
    payment: SignedPayment,
    from: { readonly price: Price; readonly body: Uint8Array; readonly offer?: Offer },
  ): Promise<AdoptedSale> {
    if (!(refusal instanceof GatewayError) || !REFUSED_AS.has(refusal.code)) throw refusal;
    // Adopted payments are exact: the signed value is the amount that moved.
    if (payment.facilitatorAddress !== undefined) throw refusal;
    const adopted = await this.#ledger.findAdoptedPayments({ payer: payment.from, nonce: payment.nonce });
    if (adopted.length === 0) throw refusal;
    const { price, body, offer: answered } = from;
    const offers = answered === undefined ? await price.offers(body) : [answered];
    for (const { key, payTo, amount, transferMethod, transaction, blockNumber } of adopted) {
      for (const offer of offers) {
        const { token } = offer;
        const isPaid =
          token.network === key.network &&
          oneSpelling(token.asset) === key.asset &&
          oneSpelling(token.payTo) === payTo &&
          token.transferMethod === transferMethod &&
          offer.amount === amount &&
          payment.value === BigInt(amount) &&
          schemeOf(offer) === "exact";
        if (!isPaid || !(await isSignedByPayer(payment, [token]))) continue;
        const requirements = this.#verification.requirementsOf(payment, offer);
        const fromBlock = BigInt(blockNumber);
        return {
          offer,
          requirements,
          fromBlock,
          funds: undefined,
          fundsReadAt: 0,
          facilitator: undefined,
          paidIn: transaction,
        };
      }
    }
    throw paidAlready(adopted);
  }

  /**
   * Replaces the refusal of an adopted payment whose job has no price, so that the buyer does not sign and pay again.
   * @returns the refusal itself if the payment is not adopted
   */
  async explain(refusal: unknown, payment: SignedPayment): Promise<unknown> {
    if (!(refusal instanceof GatewayError)) return refusal;
    const adopted = await this.#ledger.findAdoptedPayments({ payer: payment.from, nonce: payment.nonce });
    return adopted.length === 0 ? refusal : paidAlready(adopted);
  }
}

function paidAlready([payment]: readonly AdoptedPayment[]): GatewayError {
  return new GatewayError(
    "authorization_used",
    "This payment has already moved its money. It buys one run of a job whose price is its amount: send it to such a job.",
    { details: { charged: "unknown", ...(payment && { transaction: payment.transaction }) } },
  );
}

const REFUSED_AS: ReadonlySet<string> = new Set([
  "authorization_used",
  "payment_mismatch",
  "payment_invalid",
]);
