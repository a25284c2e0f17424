import {
  authorizationTypes,
  PERMIT2_ADDRESS,
  permit2WitnessTypes,
  uptoPermit2WitnessTypes,
  x402ExactPermit2ProxyAddress,
  x402UptoPermit2ProxyAddress,
} from "@x402/evm";
import { recoverTypedDataAddress } from "viem";
import { chainIdOf } from "../../chain/chain-client.ts";
import type { AcceptedToken } from "../../config/config.ts";
import type { SignedPayment } from "./payment-header.ts";

/** Contract that settles Permit2 payments of the scheme exact: the only spender that they may name. Lower case. */
export const PERMIT2_PROXY = x402ExactPermit2ProxyAddress.toLowerCase() as `0x${string}`;

/** The same for the scheme upto. */
export const UPTO_PROXY = x402UptoPermit2ProxyAddress.toLowerCase() as `0x${string}`;

/** A token that a payment may have been signed for, and its recipient. */
export type SignedToken = Pick<AcceptedToken, "network" | "asset" | "payTo" | "transferMethod" | "eip3009">;

/**
 * Checks, without asking anyone, that the payer signed the payment, in one of these tokens and to its recipient: a payment
 * that was signed for another seller could have been sent by that seller. Price and time do not matter. A smart account's
 * signature recovers to no payer.
 */
export async function isSignedByPayer(
  payment: SignedPayment,
  tokens: readonly SignedToken[],
): Promise<boolean> {
  const { transferMethod, accepted, to, from } = payment;
  for (const token of tokens) {
    const isNamed =
      accepted === undefined ||
      (accepted.network === token.network && accepted.asset.toLowerCase() === token.asset.toLowerCase());
    if (!isNamed || to !== token.payTo.toLowerCase() || transferMethod !== token.transferMethod) continue;
    if ((await recoverSigner(payment, token))?.toLowerCase() === from) return true;
  }
  return false;
}

async function recoverSigner(payment: SignedPayment, token: SignedToken): Promise<string | undefined> {
  const { signature } = payment.payload.payload as { signature: `0x${string}` };
  try {
    // A spread would lose which message belongs to which types.
    if (payment.transferMethod === "eip3009")
      return await recoverTypedDataAddress({ ...authorizationMessage(payment, token), signature });
    return await (payment.permit2?.facilitator === undefined
      ? recoverTypedDataAddress({ ...permitMessage(payment, token), signature })
      : recoverTypedDataAddress({ ...permitMessageByUse(payment, token), signature }));
  } catch {
    return undefined;
  }
}

/** Typed data of an EIP-3009 payment. */
function authorizationMessage(
  { from, to, value, validAfter, validBefore, nonce }: SignedPayment,
  { network, asset, eip3009 }: SignedToken,
) {
  return {
    domain: { ...eip3009, chainId: chainIdOf(network), verifyingContract: asset },
    types: authorizationTypes,
    primaryType: "TransferWithAuthorization",
    message: {
      from,
      to: to as `0x${string}`,
      value,
      validAfter,
      validBefore,
      nonce: nonce as `0x${string}`,
    },
  } as const;
}

/** Typed data of a Permit2 payment in this token. */
function permitMessage(
  { to, value, validAfter, validBefore, nonce }: SignedPayment,
  { network, asset }: SignedToken,
) {
  return {
    domain: { name: "Permit2", chainId: chainIdOf(network), verifyingContract: PERMIT2_ADDRESS },
    types: permit2WitnessTypes,
    primaryType: "PermitWitnessTransferFrom",
    message: {
      permitted: { token: asset, amount: value },
      spender: PERMIT2_PROXY,
      nonce: BigInt(nonce),
      deadline: validBefore,
      witness: { to: to as `0x${string}`, validAfter },
    },
  } as const;
}

/** Typed data of a Permit2 payment by use, which binds the facilitator too. */
function permitMessageByUse(payment: SignedPayment, token: SignedToken) {
  const { domain, primaryType, message } = permitMessage(payment, token);
  const facilitator = payment.permit2?.facilitator as `0x${string}`;
  return {
    domain,
    types: uptoPermit2WitnessTypes,
    primaryType,
    message: { ...message, spender: UPTO_PROXY, witness: { ...message.witness, facilitator } },
  } as const;
}
