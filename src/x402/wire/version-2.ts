import { isDeepStrictEqual } from "node:util";
import { PaymentRequirementsV2Schema } from "@x402/core/schemas";
import type { PaymentPayload, PaymentRequirements } from "@x402/core/types";
import { oneSpelling } from "../../core/payment.ts";
import { toRequirements } from "./offer.ts";
import type { WireVersion } from "./version.ts";

/** The current version: payments name the whole offer. */
export const VERSION_2: WireVersion = {
  number: 2,
  headers: { payment: "payment-signature", settlement: "payment-response" },
  hasExtensions: true,
  nameOf: (network) => network,
  networkOf: (name) => name,

  read(payload) {
    const { accepted } = payload as PaymentPayload;
    return { scheme: accepted.scheme, network: accepted.network, accepted };
  },

  names: ({ accepted }, offer) =>
    accepted !== undefined && isDeepStrictEqual(comparable(accepted), comparable(toRequirements(offer))),

  requirementsOf: toRequirements,
  isRequirements: (value) => PaymentRequirementsV2Schema.safeParse(value).success,
  toCurrent: ({ payload, requirements }) => ({
    payload: payload as PaymentPayload,
    requirements: requirements as PaymentRequirements,
  }),
};

/** Returns requirements with addresses in one letter case, without the time-out, which is only a hint. */
function comparable({ scheme, network, asset, amount, payTo, extra }: PaymentRequirements) {
  return {
    scheme,
    network,
    asset: oneSpelling(asset),
    amount,
    payTo: oneSpelling(payTo),
    extra: { ...(extra ?? {}) },
  };
}
