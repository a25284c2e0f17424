import { encodePaymentResponseHeader } from "@x402/core/http";
import type { SettleResponse } from "@x402/core/types";
import { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import { type HttpResponse, jsonResponse } from "../../http/response.ts";
import type { JobResult } from "../../store/contract/work-queue.ts";
import { resultResponse } from "../calls/result.ts";
import type { PaymentOutcome } from "../settlement/payment-outcome.ts";
import { v1NetworkName } from "../wire/v1-networks.ts";

export interface PaymentAnswerOptions {
  readonly job: JobKey;
  readonly x402Version: 1 | 2;
  /** The wait that the client preferred and was given; undefined when there was none. */
  readonly waitedSecs?: number | undefined;
}

/**
 * The 202 of a payment that was accepted.
 * @throws GatewayError `settlement_failed` or `settlement_unknown` for one that was not, or not yet
 */
export function paymentAnswer(
  outcome: PaymentOutcome,
  { job, x402Version, waitedSecs }: PaymentAnswerOptions,
): HttpResponse {
  switch (outcome.kind) {
    case "accepted":
      return jsonResponse(
        202,
        {
          status: "accepted",
          receipt: outcome.receipt,
          service_id: job.serviceId,
          job_index: job.jobIndex,
          call_id: outcome.callId,
        },
        { ...settlementHeader(outcome.settlement, x402Version), ...preferenceApplied(waitedSecs) },
      );
    case "failed":
      throw new GatewayError(
        "settlement_failed",
        "The payment was not settled, and nothing was charged: sign a new one.",
        {
          headers: settlementHeader(outcome.settlement, x402Version),
        },
      );
    case "undecided":
      throw new GatewayError(
        "settlement_unknown",
        "It is not known yet whether the payment was settled. Send the very same request again: if it was, the job will run once.",
        { details: { charged: "unknown" }, headers: { "retry-after": "2" } },
      );
  }
}

/**
 * The 200 of a payment whose job was done while the client waited: the result itself. What the 202 says in its body
 * is in headers here. A runner may finish without a result: then the body is empty.
 */
export function waitedAnswer(
  { callId, receipt, settlement }: Extract<PaymentOutcome, { kind: "accepted" }>,
  { x402Version, waitedSecs }: PaymentAnswerOptions,
  result: JobResult = { body: new Uint8Array(), contentType: "application/octet-stream" },
): HttpResponse {
  return resultResponse(result, {
    ...settlementHeader(settlement, x402Version),
    ...preferenceApplied(waitedSecs),
    "x-call-id": String(callId),
    "x-receipt": receipt,
  });
}

function preferenceApplied(waitedSecs: number | undefined): Record<string, string> {
  return waitedSecs === undefined ? {} : { "preference-applied": `wait=${waitedSecs}` };
}

function settlementHeader(settlement: SettleResponse, x402Version: 1 | 2): Record<string, string> {
  if (x402Version === 2) return { "payment-response": encodePaymentResponseHeader(settlement) };
  const network = (v1NetworkName(settlement.network) ?? settlement.network) as SettleResponse["network"];
  return { "x-payment-response": encodePaymentResponseHeader({ ...settlement, network }) };
}
