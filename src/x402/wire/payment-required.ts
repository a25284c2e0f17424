import { encodePaymentRequiredHeader } from "@x402/core/http";
import type { PaymentRequired } from "@x402/core/types";
import { GatewayError } from "../../core/errors.ts";
import { type HttpResponse, jsonResponse } from "../../http/response.ts";
import type { PaymentOutcome } from "../settlement/payment-outcome.ts";
import { type JobDescription, type Offer, toRequirements, toRequirementsV1 } from "./offer.ts";

/** A refusal with status 402, and the offers that the client can pay instead. */
export class PaymentRefusal extends GatewayError {
  readonly offers: readonly Offer[];
  /** Body of the refused request. */
  readonly body: Uint8Array | undefined;
  /** Hash of the whole refused request, at a job's own route. */
  readonly requestHash: string | undefined;
  /** The settlement that failed, if one was asked for. */
  readonly settled:
    | Pick<PaymentOutcome & { kind: "failed" }, "settlement" | "extensionResponses">
    | undefined;

  constructor(
    refusal: GatewayError,
    offers: readonly Offer[],
    { body, requestHash, settled }: Partial<Pick<PaymentRefusal, "body" | "requestHash" | "settled">> = {},
  ) {
    const { code, message, cause, details, headers } = refusal;
    super(code, message, { cause, details, headers });
    this.offers = offers;
    this.body = body;
    this.requestHash = requestHash;
    this.settled = settled;
  }
}

/** Returns the refusal of a request without a payment. */
export function paymentRequired(offers: readonly Offer[]): PaymentRefusal {
  const refusal = new GatewayError(
    "payment_required",
    "This job must be paid for: sign one of the offers and send the request again.",
  );
  return new PaymentRefusal(refusal, offers);
}

/**
 * Returns one 402 that clients of both versions can pay: v2 clients read the header, v1 clients the body.
 * If v1 has no name for any offer's network, the body is the v2 object too.
 * @param details further fields of the body
 */
export function paymentRequiredResponse(
  { code, status, message, headers, offers }: PaymentRefusal,
  job: JobDescription,
  details: Readonly<Record<string, unknown>>,
): HttpResponse {
  const required: PaymentRequired = {
    x402Version: 2,
    error: message,
    resource: job.resource,
    accepts: offers.map(toRequirements),
    extensions: job.extensions,
  };
  const acceptsV1 = offers.flatMap((offer) => toRequirementsV1(offer, job) ?? []);
  const body = acceptsV1.length > 0 ? { x402Version: 1, error: message, accepts: acceptsV1 } : required;
  const response = jsonResponse(
    status,
    { ...body, code, ...details },
    { "payment-required": encodePaymentRequiredHeader(required), ...headers },
  );
  return { ...response, refusal: code };
}
