import { createHash } from "node:crypto";
import type {
  PaymentPayload,
  PaymentPayloadV1,
  PaymentRequirements,
  PaymentRequirementsV1,
} from "@x402/core/types";
import * as z from "zod";
import type { FacilitatorRequest } from "../../x402/facilitators/facilitator.ts";
import type { Methods } from "../../x402/methods/methods.ts";
import { loose } from "../../x402/methods/payload-values.ts";
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
  readonly sender: string | undefined;
  readonly transfer: {
    readonly token: string;
    readonly from: string;
    readonly to: string;
    readonly value: bigint;
  };
}

/* The scheme throws for values of other shapes, which other sellers may send. */
const requirementsShape = z.looseObject({
  network: z.string(),
  asset: loose.address,
  payTo: loose.address,
  amount: loose.uint,
});
/** Reads a request to verify or to settle. @returns undefined for what is not a payment on an EVM chain */
export function readSettlerPayment(
  { payload, requirements }: FacilitatorRequest,
  methods: Methods,
): SettlerPayment | undefined {
  const v2 = isV1(payload)
    ? fromV1(payload, requirements as PaymentRequirementsV1)
    : { payload, requirements };
  if (v2 === undefined || !requirementsShape.safeParse(v2.requirements).success) return undefined;
  const { payload: signed } = v2.payload;
  const required = v2.requirements as PaymentRequirements;
  const settlable = methods.ofPayload(signed).readSettlable(signed, required.scheme);
  if (settlable === undefined) return undefined;
  const { network, asset, payTo, amount } = required;
  const text = JSON.stringify([network, asset, payTo, amount, signed]).toLowerCase();
  return {
    network,
    payload: v2.payload as PaymentPayload,
    requirements: required,
    reference: createHash("sha256").update(text).digest("hex"),
    validBefore: Number(settlable.validBefore),
    sender: settlable.settler?.toLowerCase(),
    transfer: {
      token: asset.toLowerCase(),
      from: settlable.from.toLowerCase(),
      to: payTo.toLowerCase(),
      value: BigInt(amount),
    },
  };
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
