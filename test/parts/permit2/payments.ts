import { createHash } from "node:crypto";
import type { AcceptedToken } from "../../../src/config/config.ts";
import type { PaymentIntent } from "../../../src/core/payment.ts";
import { PERMIT2 } from "../../../src/parts/permit2/method.ts";
import { Methods } from "../../../src/x402/methods/methods.ts";
import { type Offer, toRequirements } from "../../../src/x402/wire/offer.ts";
import { accounts, type TestAccount } from "../../helpers/accounts.ts";
import type { Anvil } from "../../helpers/anvil.ts";
import { type Permit2Authorization, type Permit2Payment, signPermit2Payment } from "../../helpers/clients.ts";
import type { Token } from "../../helpers/usdc.ts";
import { intentOf, offerOf } from "../../x402/payment-fixtures.ts";
import { OTHER_SCHEME, read as readBy, USDC } from "../../x402/payments.ts";

/** The transfer methods of the core and the part. */
export const METHODS = new Methods([PERMIT2], undefined, undefined, OTHER_SCHEME);

/** {@link USDC}, paid by Permit2. */
export const PERMIT2_USDC: AcceptedToken = { ...USDC, transferMethod: "permit2" };

/** Reads a payload from a request header. */
export const read = (payload: unknown, header = "payment-signature") => readBy(payload, header, METHODS);

/** Signs a Permit2 payment for an offer. */
export async function permitFor(
  offer: Offer,
  permit: Partial<Permit2Authorization> = {},
): Promise<Permit2Payment["payload"]> {
  const required = { x402Version: 2, resource: { url: "http://a" }, accepts: [toRequirements(offer)] };
  return (await signPermit2Payment({ offer: required, account: accounts.payer, permit })).payload;
}

/** Signs a Permit2 payment of 3.264 USDC that is valid for `validSecs` of the chain's time, and makes its intent. */
export async function permit2ToSettle(options: {
  readonly anvil: Anvil;
  readonly token: Pick<Token, "address" | "name" | "version">;
  /** Default: the test account that pays. */
  readonly account?: TestAccount;
  readonly validSecs?: number;
  readonly permit?: Partial<Permit2Authorization>;
}): Promise<{ readonly payment: Permit2Payment; readonly intent: PaymentIntent }> {
  const { anvil, token, account = accounts.payer, validSecs = 300 } = options;
  const offer = offerOf(anvil, token);
  const { timestamp, number } = await anvil.client.getBlock();
  const payment = await signPermit2Payment({
    offer,
    account,
    permit: { deadline: String(Number(timestamp) + validSecs), ...options.permit },
  });
  const { from, nonce, deadline } = payment.permit;
  const intent = intentOf(offer, payment.payload, {
    transferMethod: "permit2",
    payer: from,
    nonce,
    digest: createHash("sha256").update(nonce).digest("hex"),
    validBefore: deadline,
    fromBlock: number,
  });
  return { payment, intent };
}
