import { encodePaymentResponseHeader } from "@x402/core/http";
import type { SettleResponse } from "@x402/core/types";
import { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import { type HttpResponse, jsonResponse } from "../../http/response.ts";
import type { JobResult } from "../../store/contract/work-queue.ts";
import { resultResponse } from "../calls/call-answer.ts";
import type { PaymentOutcome } from "../settlement/payment-outcome.ts";
import { v1NetworkName } from "../wire/v1-networks.ts";

type X402Version = 1 | 2;

/** A payment that bought a run of a job, now or in an earlier request. */
export type AcceptedPayment = Extract<PaymentOutcome, { kind: "accepted" }> & {
  /** Protocol version that the client speaks. */
  readonly x402Version: X402Version;
};

/** An accepted payment with the token that opens its call to the buyer. */
interface BoughtCall extends AcceptedPayment {
  readonly accessToken: string;
}

/**
 * Returns the 202 of an accepted payment.
 * @param waitedSecs how long the request waited for the job's result; undefined when it did not wait
 */
export function acceptedAnswer(
  { callId, receipt, accessToken, settlement, x402Version }: BoughtCall,
  { serviceId, jobIndex }: JobKey,
  waitedSecs?: number,
): HttpResponse {
  return jsonResponse(
    202,
    {
      status: "accepted",
      receipt,
      service_id: serviceId,
      job_index: jobIndex,
      call_id: callId,
      access_token: accessToken,
    },
    { ...settlementHeader(settlement, x402Version), ...preferenceApplied(waitedSecs) },
  );
}

/**
 * Returns the 200 of a payment whose job succeeded while the client waited: the result itself. Headers hold what the
 * 202 has in its body. The body is empty if the runner gave no result.
 */
export function resultAnswer(
  { callId, receipt, accessToken, settlement, x402Version }: BoughtCall,
  waitedSecs: number,
  result: JobResult = { body: new Uint8Array(), contentType: "application/octet-stream" },
): HttpResponse {
  return resultResponse(result, {
    ...settlementHeader(settlement, x402Version),
    ...preferenceApplied(waitedSecs),
    "x-call-id": String(callId),
    "x-receipt": receipt,
    "x-access-token": accessToken,
  });
}

/** The refusal of a payment that was not settled, or not yet. */
export function settlementRefusal(
  outcome: Exclude<PaymentOutcome, { kind: "accepted" }>,
  x402Version: X402Version,
): GatewayError {
  if (outcome.kind === "failed") {
    return new GatewayError(
      "settlement_failed",
      "The payment was not settled, and nothing was charged: sign a new one.",
      { headers: settlementHeader(outcome.settlement, x402Version) },
    );
  }
  return new GatewayError(
    "settlement_unknown",
    "It is not known yet whether the payment was settled. Send the very same request again: if it was, the job will run once.",
    { details: { charged: "unknown" }, headers: { "retry-after": "2" } },
  );
}

function preferenceApplied(waitedSecs: number | undefined): Record<string, string> {
  return waitedSecs === undefined ? {} : { "preference-applied": `wait=${waitedSecs}` };
}

function settlementHeader(settlement: SettleResponse, x402Version: X402Version): Record<string, string> {
  if (x402Version === 2) return { "payment-response": encodePaymentResponseHeader(settlement) };
  const network = (v1NetworkName(settlement.network) ?? settlement.network) as SettleResponse["network"];
  return { "x-payment-response": encodePaymentResponseHeader({ ...settlement, network }) };
}
