import { PERMIT2_ADDRESS, permit2WitnessTypes, uptoPermit2WitnessTypes } from "@x402/evm";
import { recoverTypedDataAddress } from "viem";
import * as z from "zod";
import { chainIdOf } from "../../chain/chain-client.ts";
import type {
  SettlablePayload,
  SignedFields,
  SignedPayment,
  SignedToken,
} from "../../x402/methods/method.ts";
import {
  address,
  decimal,
  fingerprintOf,
  loose,
  lowerCase,
  signature,
  uint,
} from "../../x402/methods/payload-values.ts";
import type { Offer } from "../../x402/wire/offer.ts";
import { permit2Tokens } from "./config.ts";
import { EXACT_PROXY, UPTO_PROXY } from "./contracts.ts";

export const permitPayload = z
  .object({
    signature,
    permit2Authorization: z
      .object({
        from: address,
        permitted: z.object({ token: address, amount: uint }).strict(),
        spender: address,
        nonce: decimal,
        deadline: uint,
        witness: z.object({ to: address, facilitator: address.optional(), validAfter: uint }).strict(),
      })
      .strict(),
  })
  .strict()
  .transform(({ signature, permit2Authorization: permit }): SignedFields => {
    const { from, permitted, spender, nonce, deadline, witness } = permit;
    const signed = {
      from: lowerCase(from),
      to: lowerCase(witness.to),
      value: permitted.amount,
      validAfter: witness.validAfter,
      validBefore: deadline,
      nonce,
    };
    const facilitator = witness.facilitator && lowerCase(witness.facilitator);
    const permit2 = { token: lowerCase(permitted.token), spender: lowerCase(spender), facilitator };
    const fingerprint = fingerprintOf(signature, { transferMethod: permit2Tokens.name, ...signed, permit2 });
    return { ...signed, settler: facilitator, fingerprint };
  });

/** Signed payload of a payment, as {@link permitPayload} accepted it. */
interface Permit {
  readonly signature: `0x${string}`;
  readonly permit2Authorization: {
    readonly permitted: { readonly token: string };
    readonly spender: string;
  };
}

/** Any spender but x402's proxy may send the money elsewhere: only the proxy binds it to the signed recipient. */
export function pays(payment: SignedPayment, { token, amount, charge }: Offer): boolean {
  const { to, value, settler } = payment;
  const { permitted, spender } = permitOf(payment).permit2Authorization;
  return (
    to === token.payTo.toLowerCase() &&
    value === BigInt(amount) &&
    permitted.token.toLowerCase() === token.asset.toLowerCase() &&
    spender.toLowerCase() === (charge?.kind === "used" ? UPTO_PROXY : EXACT_PROXY) &&
    settler === charge?.facilitator?.toLowerCase()
  );
}

export async function recoverSigner(payment: SignedPayment, token: SignedToken): Promise<string | undefined> {
  const { signature } = permitOf(payment);
  // A spread would lose which message belongs to which types.
  return payment.settler === undefined
    ? recoverTypedDataAddress({ ...permitMessage(payment, token), signature })
    : recoverTypedDataAddress({ ...permitMessageAsUsed(payment, token), signature });
}

function permitOf({ payload }: SignedPayment): Permit {
  return payload.payload as unknown as Permit;
}

/** Typed data of a payment in this token. */
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
      spender: EXACT_PROXY,
      nonce: BigInt(nonce),
      deadline: validBefore,
      witness: { to: to as `0x${string}`, validAfter },
    },
  } as const;
}

/** Typed data of a payment that is charged as used, in which the payer also signs the address of the facilitator. */
function permitMessageAsUsed(payment: SignedPayment, token: SignedToken) {
  const { domain, primaryType, message } = permitMessage(payment, token);
  const facilitator = payment.settler as `0x${string}`;
  return {
    domain,
    types: uptoPermit2WitnessTypes,
    primaryType,
    message: { ...message, spender: UPTO_PROXY, witness: { ...message.witness, facilitator } },
  } as const;
}

const settlable = z.looseObject({
  signature: loose.hex,
  permit2Authorization: z.looseObject({
    from: loose.address,
    permitted: z.looseObject({ token: loose.address, amount: loose.uint }),
    spender: loose.address,
    nonce: loose.uint,
    deadline: loose.uint,
    witness: z.looseObject({
      to: loose.address,
      facilitator: loose.address.optional(),
      validAfter: loose.uint,
    }),
  }),
});

export function readSettlable(payload: object, scheme: string): SettlablePayload | undefined {
  const { data } = settlable.safeParse(payload);
  if (data === undefined) return undefined;
  const { from, deadline, witness } = data.permit2Authorization;
  const { facilitator: settler } = witness;
  if (scheme !== "upto") return { from, validBefore: deadline };
  return settler === undefined ? undefined : { from, validBefore: deadline, settler };
}
