import { PERMIT2_ADDRESS } from "@x402/evm";
import * as z from "zod";
import { chainIdOf } from "../../chain/chain-client.ts";
import { recoverTypedDataAddress } from "../../chain/recover-address.ts";
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
import { type Offer, schemeOf } from "../../x402/wire/offer.ts";
import { permit2Tokens } from "./config.ts";
import { findProxy, PROXIES } from "./proxies.ts";

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
    return { ...signed, facilitatorAddress: facilitator, fingerprint };
  });

/** Signed payload of a payment, as {@link permitPayload} accepted it. */
interface Permit {
  readonly signature: `0x${string}`;
  readonly permit2Authorization: {
    readonly permitted: { readonly token: string };
    readonly spender: string;
  };
}

/** Only x402's proxy sends the money to the signed recipient. Any other spender could send it elsewhere. */
export function pays(payment: SignedPayment, offer: Offer): boolean {
  const { token, amount, charge } = offer;
  const { to, value, facilitatorAddress } = payment;
  const { permitted, spender } = permitOf(payment).permit2Authorization;
  return (
    to === token.payTo.toLowerCase() &&
    value === BigInt(amount) &&
    permitted.token.toLowerCase() === token.asset.toLowerCase() &&
    spender.toLowerCase() === findProxy({ scheme: schemeOf(offer) })?.address &&
    facilitatorAddress === charge?.extra?.facilitatorAddress?.toLowerCase()
  );
}

export async function recoverSigner(payment: SignedPayment, token: SignedToken): Promise<string | undefined> {
  const { signature } = permitOf(payment);
  const message = permitMessage(payment, token);
  return message && recoverTypedDataAddress({ ...message, signature });
}

function permitOf({ payload }: SignedPayment): Permit {
  return payload.payload as unknown as Permit;
}

/** Returns the typed data of a payment in this token; undefined if no proxy settles such a payment. */
function permitMessage(
  { to, value, validAfter, validBefore, nonce, facilitatorAddress: facilitator }: SignedPayment,
  { network, asset }: SignedToken,
) {
  const isCeiling = facilitator !== undefined;
  const proxy = PROXIES.find(({ ceiling }) => (ceiling !== undefined) === isCeiling);
  if (proxy === undefined) return undefined;
  const witness = { to, validAfter };
  return {
    domain: { name: "Permit2", chainId: chainIdOf(network), verifyingContract: PERMIT2_ADDRESS },
    types: proxy.witnessTypes as Record<string, unknown>,
    primaryType: "PermitWitnessTransferFrom",
    message: {
      permitted: { token: asset, amount: value },
      spender: proxy.address,
      nonce: BigInt(nonce),
      deadline: validBefore,
      witness: isCeiling ? { ...witness, facilitator } : witness,
    },
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
  const { facilitator: sender } = witness;
  if (findProxy({ scheme })?.ceiling === undefined) return { from, validBefore: deadline };
  return sender === undefined ? undefined : { from, validBefore: deadline, sender };
}
