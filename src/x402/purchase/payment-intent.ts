import { oneSpelling, type PaymentIntent } from "../../core/payment.ts";
import { priceText } from "../../core/price.ts";
import type { SignedPayment } from "../methods/method.ts";
import type { ConfirmedPrice } from "../prices/price.ts";
import type { PurchaseIdentity } from "../settlement/payment-outcome.ts";
import type { PurchaseNonce } from "../settlement/settlement.ts";
import { paymentKey, storableSeconds, type VerifiedPayment } from "./verification.ts";

interface Bought {
  readonly payment: SignedPayment;
  readonly identity: PurchaseIdentity;
  readonly confirmed: ConfirmedPrice;
  readonly nonces: readonly PurchaseNonce[];
}

/** Returns the intent that is journalled before a payment is settled. */
export function toIntent(
  { payment, identity, confirmed, nonces }: Bought,
  { offer, requirements, fromBlock, facilitator, paidIn }: VerifiedPayment,
): PaymentIntent {
  const { token, amount, rate, priceWei, currency, charge } = offer;
  return {
    ...identity,
    key: paymentKey(payment, offer),
    x402Version: payment.version.number,
    payload: JSON.stringify(payment.payload),
    requirements: JSON.stringify(requirements),
    facilitator,
    transferMethod: token.transferMethod,
    payTo: oneSpelling(token.payTo),
    amount,
    symbol: token.symbol,
    price: currency === "USD" ? priceText({ unit: "usd", amount: priceWei }) : priceWei.toString(),
    rate,
    decimals: token.decimals,
    validBefore: storableSeconds(payment.validBefore),
    receipt: confirmed.digest,
    fromBlock: fromBlock?.toString(),
    oneTimeNonces: nonces.length === 0 ? undefined : nonces.map(({ nonce }) => nonce),
    onFailure: offer.onFailure,
    // An adopted payment has moved its money.
    charge: (paidIn === undefined ? charge?.kind : undefined) ?? "before",
    minCharge: charge?.minCharge,
  };
}
