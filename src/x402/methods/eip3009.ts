import { authorizationTypes } from "@x402/evm";
import * as z from "zod";
import { chainIdOf } from "../../chain/chain-client.ts";
import { recoverTypedDataAddress } from "../../chain/recover-address.ts";
import { EIP3009 } from "../../core/payment.ts";
import { Eip3009Authorization, paymentsIn } from "./eip3009-authorization.ts";
import type { Method, SettlablePayload, SignedFields, SignedPayment, SignedToken } from "./method.ts";
import { EIP3009_FUNDS } from "./payer-balance.ts";
import { address, fingerprintOf, loose, lowerCase, signature, uint } from "./payload-values.ts";

const payload = z
  .object({
    signature,
    authorization: z
      .object({
        from: address,
        to: address,
        value: uint,
        validAfter: uint,
        validBefore: uint,
        nonce: z.string().regex(/^0x[0-9a-fA-F]{64}$/, "expected 0x and 64 hex digits"),
      })
      .strict(),
  })
  .strict()
  .transform(
    ({ signature, authorization: { from, to, value, validAfter, validBefore, nonce } }): SignedFields => {
      const fields = {
        transferMethod: EIP3009.name,
        from: lowerCase(from),
        to: lowerCase(to),
        value,
        validAfter,
        validBefore,
        nonce: lowerCase(nonce),
      };
      const { transferMethod: _, ...signed } = fields;
      return { ...signed, settler: undefined, fingerprint: fingerprintOf(signature, fields) };
    },
  );

const settlable = z.looseObject({
  signature: loose.hex,
  authorization: z.looseObject({
    from: loose.address,
    to: loose.address,
    value: loose.uint,
    validAfter: loose.uint,
    validBefore: loose.uint,
    nonce: loose.word,
  }),
});

/** EIP-3009: the token checks the signature, and moves itself. */
export const EIP3009_METHOD: Method = {
  ...EIP3009,
  extensions: {},
  owns: (payload) => "authorization" in payload,
  payload: { schema: payload, kind: "an EIP-3009 authorization" },
  pays: ({ to, value }, { token, amount }) => to === token.payTo.toLowerCase() && value === BigInt(amount),
  compared: "recipient",
  recoverSigner,
  authorizationOf: (payment) => new Eip3009Authorization(payment),
  paymentsIn,
  funds: EIP3009_FUNDS,
  readSettlable,
};

async function recoverSigner(payment: SignedPayment, token: SignedToken): Promise<string | undefined> {
  const { from, to, value, validAfter, validBefore, nonce } = payment;
  const { network, asset, eip3009 } = token;
  const { signature } = payment.payload.payload as { signature: `0x${string}` };
  return recoverTypedDataAddress({
    domain: { ...eip3009, chainId: chainIdOf(network), verifyingContract: asset as `0x${string}` },
    types: authorizationTypes,
    primaryType: "TransferWithAuthorization",
    message: {
      from: from as `0x${string}`,
      to: to as `0x${string}`,
      value,
      validAfter,
      validBefore,
      nonce: nonce as `0x${string}`,
    },
    signature,
  });
}

function readSettlable(payload: object): SettlablePayload | undefined {
  const { data } = settlable.safeParse(payload);
  return data && { from: data.authorization.from, validBefore: data.authorization.validBefore };
}
