import { encodePaymentRequiredHeader } from "@x402/core/http";
import type { PaymentRequired } from "@x402/core/types";
import { GatewayError } from "../../core/errors.ts";
import { type HttpResponse, jsonResponse } from "../../http/response.ts";
import { type Offer, toRequirements, toRequirementsV1 } from "./offer.ts";

/** A refusal with status 402, and the offers that the client can pay instead. */
export class PaymentRefusal extends GatewayError {
  readonly offers: readonly Offer[];

  constructor(refusal: GatewayError, offers: readonly Offer[]) {
    const { code, message, cause, details, headers } = refusal;
    super(code, message, { cause, details, headers });
    this.offers = offers;
  }
}

/**
 * Returns one 402 that clients of both versions can pay: v2 clients read the header, v1 clients the body.
 * If v1 has no name for any offer's network, the body is the v2 object too.
 * @param resource absolute URL of the job
 * @param details further fields of the body
 */
export function paymentRequiredResponse(
  { code, status, message, headers, offers }: PaymentRefusal,
  resource: string,
  details: Readonly<Record<string, unknown>>,
): HttpResponse {
  const required: PaymentRequired = {
    x402Version: 2,
    error: message,
    resource: { url: resource },
    accepts: offers.map(toRequirements),
  };
  const acceptsV1 = offers.flatMap((offer) => toRequirementsV1(offer, resource) ?? []);
  const body = acceptsV1.length > 0 ? { x402Version: 1, error: message, accepts: acceptsV1 } : required;
  const response = jsonResponse(
    status,
    { ...body, code, ...details },
    { "payment-required": encodePaymentRequiredHeader(required), ...headers },
  );
  return { ...response, refusal: code };
}
