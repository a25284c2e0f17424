import { isDeepStrictEqual } from "node:util";
import type { PaymentRequirements } from "@x402/core/types";
import { authorizationTypes } from "@x402/evm";
import { recoverTypedDataAddress } from "viem";
import { GatewayError } from "../../core/errors.ts";
import { type Offer, toRequirements } from "./offer.ts";
import type { SignedPayment } from "./payment-header.ts";
import { v1NetworkName } from "./v1-networks.ts";

/** Remaining lifetime that a payment needs in order to be verified, settled and mined. */
const MIN_SECONDS_LEFT = 6;
/** Time by which an authorization may outlive the offer's `maxTimeoutSeconds`. */
const MAX_SECONDS_OVER = 3_600;

/**
 * Returns the offer that a payment answers. Runs before any facilitator sees the payment: facilitators choose what to
 * do by the payload's shape and settle less than the offer asks for, so the signed values are compared with it here.
 * @param offers offers that are payable at `nowMs`
 * @throws GatewayError `payment_mismatch`
 */
export async function matchOffer(
  payment: SignedPayment,
  offers: readonly Offer[],
  nowMs: number,
): Promise<Offer> {
  const named = offers.filter((offer) => namesOffer(payment, offer));
  if (named.length === 0) {
    throw mismatch(
      "The payment answers no open offer for this job: scheme, network, asset, amount, payTo or extra differ.",
    );
  }
  if (payment.transferMethod !== "eip3009") {
    throw mismatch(`The offers ask for eip3009, but the payload is ${payment.transferMethod}.`);
  }
  const paid = named.filter((offer) => paysOffer(payment, offer));
  if (paid.length === 0) {
    throw mismatch(
      "The signed authorization does not pay the offer: its recipient or its exact amount differs.",
    );
  }
  checkTimeWindow(payment, Math.max(...paid.map(({ ttlSecs }) => ttlSecs)), nowMs);
  return paid.length === 1 && paid[0] ? paid[0] : pickBySignature(payment, paid);
}

/** Reports whether the unsigned part of the payment names this offer. */
function namesOffer(payment: SignedPayment, offer: Offer): boolean {
  if (payment.scheme !== "exact") return false;
  if (payment.accepted === undefined) return payment.network === v1NetworkName(offer.token.network);
  return isDeepStrictEqual(comparable(payment.accepted), comparable(toRequirements(offer)));
}

/** Returns requirements with addresses in one letter case, without the time-out, which is only a hint. */
function comparable({ scheme, network, asset, amount, payTo, extra }: PaymentRequirements) {
  return {
    scheme,
    network,
    asset: asset.toLowerCase(),
    amount,
    payTo: payTo.toLowerCase(),
    extra: { ...(extra ?? {}) },
  };
}

/** Reports whether the signed part pays exactly this offer's amount to its recipient. */
function paysOffer({ to, value }: SignedPayment, { token, amount }: Offer): boolean {
  return to === token.payTo.toLowerCase() && value === BigInt(amount);
}

function checkTimeWindow(
  { validAfter, validBefore }: SignedPayment,
  maxTimeoutSecs: number,
  nowMs: number,
): void {
  const now = BigInt(nowMs);
  if (validAfter * 1000n > now)
    throw mismatch("The authorization is not valid yet: sign one with an earlier validAfter.");
  if (validBefore * 1000n <= now) throw mismatch("The authorization has expired: sign a new one.");
  if (validBefore * 1000n - now < BigInt(MIN_SECONDS_LEFT * 1000)) {
    throw mismatch(`The authorization expires in under ${MIN_SECONDS_LEFT} seconds: sign a new one.`);
  }
  // While an authorization is valid, nobody can say that it was not used: one that never ends could stay undecided.
  const maxSecs = maxTimeoutSecs + MAX_SECONDS_OVER;
  if (validBefore * 1000n - now > BigInt(maxSecs * 1000)) {
    throw mismatch(`The authorization expires in over ${maxSecs} seconds: sign one that ends sooner.`);
  }
}

/**
 * Returns the offer in the token whose EIP-712 domain the payer signed. A v1 payment does not name its token, so two
 * tokens of one network at the same amount look alike. A smart account's signature recovers to no payer; then the
 * first offer counts.
 */
async function pickBySignature(payment: SignedPayment, offers: readonly Offer[]): Promise<Offer> {
  for (const offer of offers) {
    const signer = await recoverSigner(payment, offer);
    if (signer?.toLowerCase() === payment.from) return offer;
  }
  return offers[0] as Offer;
}

async function recoverSigner(payment: SignedPayment, { token }: Offer): Promise<string | undefined> {
  const { signature } = payment.payload.payload as { signature: `0x${string}` };
  try {
    return await recoverTypedDataAddress({
      domain: {
        ...token.eip3009,
        chainId: Number(token.network.slice("eip155:".length)),
        verifyingContract: token.asset,
      },
      types: authorizationTypes,
      primaryType: "TransferWithAuthorization",
      message: {
        from: payment.from,
        to: payment.to as `0x${string}`,
        value: payment.value,
        validAfter: payment.validAfter,
        validBefore: payment.validBefore,
        nonce: payment.nonce as `0x${string}`,
      },
      signature,
    });
  } catch {
    return undefined;
  }
}

function mismatch(message: string): GatewayError {
  return new GatewayError("payment_mismatch", message);
}
