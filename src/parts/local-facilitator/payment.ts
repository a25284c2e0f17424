import { createHash } from "node:crypto";
import type { PaymentPayload, PaymentRequirements } from "@x402/core/types";
import * as z from "zod";
import type { FacilitatorRequest } from "../../x402/facilitators/facilitator.ts";
import type { Methods } from "../../x402/methods/methods.ts";
import { loose } from "../../x402/methods/payload-values.ts";
import type { CeilingScheme } from "../../x402/wire/offer.ts";

/** Payment in the form that the SDK's schemes take: payments of both protocol versions, as version 2. */
export interface SettlerPayment {
  /** CAIP-2. */
  readonly network: string;
  readonly payload: PaymentPayload;
  readonly requirements: PaymentRequirements;
  /**
   * Identifies the payment's transaction: a digest of the signed payload, the signature, and the seller's requirements. So
   * repeated requests to settle a payment have the same reference.
   */
  readonly reference: string;
  /** Unix seconds. */
  readonly validBefore: number;
  /** Only address that can settle the payment; undefined if every address can. */
  readonly sender: string | undefined;
  readonly from: string;
  /** Required amount in token units. */
  readonly amount: bigint;
  /** Transfer from the payer that proves the settlement; undefined if the settlement has no such transfer. */
  readonly transfer: { readonly token: string; readonly to: string; readonly value: bigint } | undefined;
}

/* Other sellers can send values of other shapes, for which the scheme would throw. */
const requirementsShape = z.looseObject({
  network: z.string(),
  asset: loose.address,
  payTo: loose.address,
  amount: loose.uint,
});

/** Returns the scheme of ceilings, if payments by a method of this build can be charged in part. */
export function settledScheme(methods: Methods): CeilingScheme | undefined {
  return [...methods].some(({ name }) => methods.chargesPart(name)) ? methods.ceilingScheme : undefined;
}

/** Reads a request to verify or to settle. @returns undefined if the request has no payment on an EVM chain */
export function readSettlerPayment(
  request: FacilitatorRequest,
  methods: Methods,
): SettlerPayment | undefined {
  const asked = methods.versions.find(request.payload.x402Version)?.toCurrent(request);
  if (asked === undefined || !requirementsShape.safeParse(asked.requirements).success) return undefined;
  const { payload, requirements: required } = asked;
  const { payload: signed } = payload;
  const settlable = methods.ofPayload(signed).readSettlable?.(signed, required.scheme);
  if (settlable === undefined) return undefined;
  const { network, asset, payTo, amount } = required;
  const { reference, moves = { to: payTo, amount } } = settlable;
  const known = reference === undefined ? [payTo, amount, signed] : [reference];
  const text = JSON.stringify([network, asset, ...known]).toLowerCase();
  return {
    network,
    payload,
    requirements: required,
    reference: createHash("sha256").update(text).digest("hex"),
    validBefore: Number(settlable.validBefore),
    sender: settlable.sender?.toLowerCase(),
    from: settlable.from.toLowerCase(),
    amount: BigInt(amount),
    transfer:
      moves === "none"
        ? undefined
        : { token: asset.toLowerCase(), to: moves.to.toLowerCase(), value: BigInt(moves.amount) },
  };
}
