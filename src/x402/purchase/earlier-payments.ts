import type { PaymentRequirements } from "@x402/core/types";
import { GatewayError } from "../../core/errors.ts";
import type { PaymentKey, PaymentRecord } from "../../core/payment.ts";
import type { PaymentJournal } from "../../store/contract/payment-journal.ts";
import type { SignedPayment, SignedToken } from "../methods/method.ts";
import { isSignedByPayer } from "../wire/match-offer.ts";
import type { Offer } from "../wire/offer.ts";

type Journal = Pick<
  PaymentJournal,
  "findPayment" | "findPaymentByFingerprint" | "findPaymentByPurchaseName" | "hasLoss"
>;

/** Journalled payments whose outcome a request may ask for again. */
export class EarlierPayments {
  readonly #journal: Journal;
  readonly #tokens: readonly SignedToken[];

  constructor(parts: { readonly journal: Journal; readonly tokens: readonly SignedToken[] }) {
    this.#journal = parts.journal;
    this.#tokens = parts.tokens;
  }

  /**
   * Finds this very payment, or another one of the purchase: under its name, or with its `key` if that is given.
   * @throws GatewayError `store_unavailable`; as long as that lasts, this may be the resend of a charged payment
   */
  async find(
    { fingerprint, purchaseName: name, from: payer }: SignedPayment,
    key?: PaymentKey,
  ): Promise<PaymentRecord | undefined> {
    const journal = this.#journal;
    try {
      const [same, named] = await Promise.all([
        journal.findPaymentByFingerprint(fingerprint),
        name === undefined ? undefined : journal.findPaymentByPurchaseName({ payer, name }),
      ]);
      return same ?? named ?? (key && (await journal.findPayment(key)));
    } catch (cause) {
      if (!(cause instanceof GatewayError)) throw cause;
      throw new GatewayError(
        "store_unavailable",
        "The store cannot be asked now whether this payment was sent before. This request charged nothing: send the very same one again.",
        { cause, details: { charged: "unknown" }, headers: { "retry-after": "5" } },
      );
    }
  }

  /** Finds the payment as {@link find} does, unless only its name is known, which the payer did not sign. */
  async findOwn(payment: SignedPayment): Promise<PaymentRecord | undefined> {
    const known = await this.find(payment);
    return known && (await this.isFromPayer(payment, known)) ? known : undefined;
  }

  /** Checks that the payment is the known one, or signed by its payer. Knows no signatures of smart accounts. */
  async isFromPayer(payment: SignedPayment, known: PaymentRecord): Promise<boolean> {
    if (payment.fingerprint === known.fingerprint) return true;
    const { network, asset, payTo, extra } = JSON.parse(known.requirements) as PaymentRequirements;
    const { transferMethod } = known;
    const eip3009 = { name: String(extra.name), version: String(extra.version) };
    // The first payment's token may have left the configuration since.
    const before = { network, asset, payTo, transferMethod, eip3009 } as SignedToken;
    return isSignedByPayer(payment, [...this.#tokens, before]);
  }

  /**
   * Refuses a payer who owes a job: of the last day, a charge after a job has failed.
   * @throws GatewayError `payment_invalid` for an offer that is charged after the job
   */
  async requireNoLoss({ from: payer }: SignedPayment, { charge }: Pick<Offer, "charge">): Promise<void> {
    if (charge === undefined || !(await this.#journal.hasLoss(payer))) return;
    throw new GatewayError(
      "payment_invalid",
      "An earlier job of this payer was done and could not be charged, so for a day the payer can buy only what is charged before it runs. Nothing was charged.",
    );
  }

  /** Checks that the payer signed the payment, in a token that is taken now. */
  isSignedByPayer(payment: SignedPayment): Promise<boolean> {
    return isSignedByPayer(payment, this.#tokens);
  }
}
