import type { PaymentPayload } from "@x402/core/types";
import { VERSION_1 } from "../../../src/parts/version-1/version-1.ts";
import { Methods } from "../../../src/x402/methods/methods.ts";
import { matchOffer } from "../../../src/x402/wire/match-offer.ts";
import type { Offer } from "../../../src/x402/wire/offer.ts";
import { Versions } from "../../../src/x402/wire/version.ts";
import { OTHER_METHOD, offersOf, read } from "../../x402/payments.ts";

export const HEADER = "x-payment";

/** The transfer methods of the core and another one, in both versions. */
export const METHODS = new Methods([OTHER_METHOD], new Versions([VERSION_1]));

/** Returns a payment as a version 1 client sends it. */
export function asV1({ payload }: PaymentPayload) {
  return { x402Version: 1, scheme: "exact", network: "base-sepolia", payload };
}

/** Returns the symbol and the transfer method of the offer that a version 1 payment matches, or the code of its refusal. */
export async function outcome(
  payload: unknown,
  {
    nowMs,
    offers = offersOf(),
    methods = METHODS,
  }: {
    readonly nowMs: number;
    readonly offers?: readonly Offer[];
    readonly methods?: Methods;
  },
): Promise<string> {
  try {
    const { token } = await matchOffer(read(payload, HEADER, methods), offers, nowMs);
    return `${token.symbol} by ${token.transferMethod}`;
  } catch (error) {
    return String((error as { code?: string }).code ?? error);
  }
}
