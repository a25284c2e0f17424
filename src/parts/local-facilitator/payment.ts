import { createHash } from "node:crypto";
import type {
  PaymentPayload,
  PaymentPayloadV1,
  PaymentRequirements,
  PaymentRequirementsV1,
} from "@x402/core/types";
import * as z from "zod";
import type { FacilitatorRequest } from "../../x402/facilitators/facilitator.ts";
import { caip2Network } from "../../x402/wire/v1-networks.ts";

/** A payment for the SDK's schemes, which see both protocol versions as version 2. */
export interface SettlerPayment {
  /** CAIP-2. */
  readonly network: string;
  readonly payload: PaymentPayload;
  readonly requirements: PaymentRequirements;
  /**
   * Identifies the payment's transaction: a digest of what was signed, its signature, and what the seller requires. The same
   * payment has the same reference whenever it is settled.
   */
  readonly reference: string;
  /** Unix seconds. */
  readonly validBefore: number;
  /** Address that alone can settle it, of a payment by use. */
  readonly sender?: string;
  readonly transfer: {
    readonly token: string;
    readonly from: string;
    readonly to: string;
    readonly value: bigint;
  };
}

const hex = z.string().regex(/^0x(?:[0-9a-fA-F]{2})*$/);
const word = z.string().regex(/^0x[0-9a-fA-F]{64}$/);
const address = z.string().regex(/^0x[0-9a-fA-F]{40}$/);
const uint = z.string().refine((digits) => /^[0-9]{1,78}$/.test(digits) && BigInt(digits) < 2n ** 256n);

/* The scheme throws for values of other shapes, which other sellers may send. */
const requirementsShape = z.looseObject({
  network: z.string(),
  asset: address,
  payTo: address,
  amount: uint,
});
const eip3009Shape = z.looseObject({
  signature: hex,
  authorization: z.looseObject({
    from: address,
    to: address,
    value: uint,
    validAfter: uint,
    validBefore: uint,
    nonce: word,
  }),
});
const permit2Shape = z.looseObject({
  signature: hex,
  permit2Authorization: z.looseObject({
    from: address,
    permitted: z.looseObject({ token: address, amount: uint }),
    spender: address,
    nonce: uint,
    deadline: uint,
    witness: z.looseObject({ to: address, facilitator: address.optional(), validAfter: uint }),
  }),
});

/** Reads a request to verify or to settle. @returns undefined for what is not a payment on an EVM chain */
export function readSettlerPayment({
  payload,
  requirements,
}: FacilitatorRequest): SettlerPayment | undefined {
  const v2 = isV1(payload)
    ? fromV1(payload, requirements as PaymentRequirementsV1)
    : { payload, requirements };
  if (v2 === undefined || !requirementsShape.safeParse(v2.requirements).success) return undefined;
  const { payload: signed } = v2.payload;
  const required = v2.requirements as PaymentRequirements;
  const { network, asset, payTo, amount } = required;
  const text = JSON.stringify([network, asset, payTo, amount, signed]).toLowerCase();
  const common = {
    network,
    payload: v2.payload as PaymentPayload,
    requirements: required,
    reference: createHash("sha256").update(text).digest("hex"),
  };
  const transfer = { token: asset.toLowerCase(), to: payTo.toLowerCase(), value: BigInt(amount) };
  if ("permit2Authorization" in signed) {
    const permit2 = permit2Shape.safeParse(signed);
    if (!permit2.success) return undefined;
    const { from, deadline, witness } = permit2.data.permit2Authorization;
    const paid = {
      ...common,
      validBefore: Number(deadline),
      transfer: { ...transfer, from: from.toLowerCase() },
    };
    if (required.scheme !== "upto") return paid;
    const { facilitator } = witness;
    return facilitator === undefined ? undefined : { ...paid, sender: facilitator.toLowerCase() };
  }
  const eip3009 = eip3009Shape.safeParse(signed);
  if (!eip3009.success) return undefined;
  const { from, validBefore } = eip3009.data.authorization;
  return { ...common, validBefore: Number(validBefore), transfer: { ...transfer, from: from.toLowerCase() } };
}

/** A version 1 payment says the same in other fields. */
function fromV1(
  payload: PaymentPayloadV1,
  requirements: PaymentRequirementsV1,
): { readonly payload: PaymentPayload; readonly requirements: PaymentRequirements } | undefined {
  const { scheme, asset, maxAmountRequired: amount, payTo, maxTimeoutSeconds, extra } = requirements;
  const network = caip2Network(requirements.network);
  const paidOn = caip2Network(payload.network);
  if (network === undefined || paidOn === undefined) return undefined;
  const required = { scheme, network, asset, amount, payTo, maxTimeoutSeconds, extra } as PaymentRequirements;
  return {
    payload: {
      x402Version: 2,
      accepted: { ...required, scheme: payload.scheme, network: paidOn },
      payload: payload.payload,
    } as PaymentPayload,
    requirements: required,
  };
}

function isV1(payload: PaymentPayload | PaymentPayloadV1): payload is PaymentPayloadV1 {
  return payload.x402Version === 1;
}
