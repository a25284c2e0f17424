import { encodePaymentRequiredHeader } from "@x402/core/http";
import type { PaymentRequired } from "@x402/core/types";
import { GatewayError } from "../../core/errors.ts";
import { type HttpResponse, jsonResponse } from "../../http/response.ts";
import type { PaymentOutcome } from "../settlement/payment-outcome.ts";
import { type JobDescription, type Offer, toRequirements } from "./offer.ts";
import type { Versions } from "./version.ts";

/** A refusal of a payment that tells its payer what to sign instead, by the message and by further fields of the offers. */
export class Correction extends GatewayError {
  readonly correct: (offer: Offer) => Offer;

  constructor(message: string, correct: Correction["correct"]) {
    super("payment_mismatch", message);
    this.correct = correct;
  }
}

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
 * Returns one 402 that clients of all versions can pay: clients of the current version read the header, other clients read
 * the body. If no other version can express any of the offers, the body has the content of the header.
 * @param details further fields of the body
 */
export function paymentRequiredResponse(
  { code, status, message, headers, offers }: PaymentRefusal,
  job: JobDescription,
  details: Readonly<Record<string, unknown>>,
  { added }: Pick<Versions, "added">,
): HttpResponse {
  const required: PaymentRequired = {
    x402Version: 2,
    error: message,
    resource: job.resource,
    accepts: offers.map(toRequirements),
    extensions: job.extensions,
  };
  const inOthers = added.map((version) => ({
    x402Version: version.number,
    error: message,
    accepts: offers.flatMap((offer) => version.requirementsOf(offer, job) ?? []),
  }));
  const body = inOthers.find(({ accepts }) => accepts.length > 0) ?? required;
  const response = jsonResponse(
    status,
    { ...body, code, ...details },
    { "payment-required": encodePaymentRequiredHeader(required), ...headers },
  );
  return { ...response, refusal: code };
}
