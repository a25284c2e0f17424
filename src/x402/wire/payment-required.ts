import type { OutgoingHttpHeaders } from "node:http";
import { encodePaymentRequiredHeader } from "@x402/core/http";
import type { PaymentRequired } from "@x402/core/types";
import type { GatewayError } from "../../core/errors.ts";
import { type HttpResponse, jsonResponse } from "../../http/response.ts";
import { type Offer, toRequirements, toRequirementsV1 } from "./offer.ts";

export interface PaymentRequiredOptions {
  /** Why there is no job yet: no payment, or what is wrong with it. */
  readonly refusal: GatewayError;
  readonly offers: readonly Offer[];
  /** Absolute URL of the job, from the configuration. */
  readonly resource: string;
  readonly details: Readonly<Record<string, unknown>>;
  readonly headers?: OutgoingHttpHeaders;
}

/**
 * One 402 that clients of both versions can pay: v2 clients read the header, v1 clients the body.
 * Where v1 has no name for any offer's network, the body is the v2 object too.
 */
export function paymentRequiredResponse(options: PaymentRequiredOptions): HttpResponse {
  const { refusal, offers, resource, details, headers } = options;
  const required: PaymentRequired = {
    x402Version: 2,
    error: refusal.message,
    resource: { url: resource },
    accepts: offers.map(toRequirements),
  };
  const acceptsV1 = offers.flatMap((offer) => toRequirementsV1(offer, resource) ?? []);
  const body =
    acceptsV1.length > 0 ? { x402Version: 1, error: refusal.message, accepts: acceptsV1 } : required;
  const response = jsonResponse(
    refusal.status,
    { ...body, code: refusal.code, ...details },
    { "payment-required": encodePaymentRequiredHeader(required), ...headers },
  );
  return { ...response, refusal: refusal.code };
}
