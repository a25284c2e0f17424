import { oneSpelling } from "../../core/payment.ts";
import type { SignedPayment, SignedToken } from "../methods/method.ts";

/**
 * Checks, without asking anyone, that the payer signed the payment, in one of these tokens and to its recipient: a payment
 * that was signed for another seller could have been sent by that seller. Price and time do not matter. A smart account's
 * signature recovers to no payer.
 */
export async function isSignedByPayer(
  payment: SignedPayment,
  tokens: readonly SignedToken[],
): Promise<boolean> {
  const { method, accepted, to, from } = payment;
  for (const token of tokens) {
    const isNamed =
      accepted === undefined ||
      (accepted.network === token.network && oneSpelling(accepted.asset) === oneSpelling(token.asset));
    if (!isNamed || method.name !== token.transferMethod) continue;
    if (to !== (method.recipientOf?.(token) ?? oneSpelling(token.payTo))) continue;
    const signer = await method.recoverSigner(payment, token).catch(() => undefined);
    if (signer !== undefined && oneSpelling(signer) === from) return true;
  }
  return false;
}
