import { ERROR_KINDS, type ErrorCode, GatewayError, refusalOf } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { HttpRequest } from "../../http/request.ts";
import {
  errorResponse,
  type HttpResponse,
  jsonResponse,
  type StreamingResponse,
} from "../../http/response.ts";
import { resultResponse } from "../calls/result-response.ts";
import type { AcceptedPayment } from "./purchase.ts";

/** An accepted payment with the way to its call. */
interface BoughtCall extends Pick<AcceptedPayment, "callId" | "receipt" | "settlement" | "isReleased"> {
  /** Opens the call to its buyer. */
  readonly accessToken: string;
  /** Path of the call's state. */
  readonly path: string;
  /** Headers with the settlement. */
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Returns the 202 of an accepted payment.
 * @param preferredSecs how long the client preferred to wait for the job's result; undefined if it did not wait for that
 */
export function acceptedAnswer(
  bought: BoughtCall,
  { serviceId, jobIndex }: JobKey,
  preferredSecs?: number,
): HttpResponse {
  const { callId, receipt, accessToken, path, settlement, isReleased } = bought;
  return jsonResponse(
    202,
    {
      status: "accepted",
      // A deferred payment has moved nothing yet, or never will.
      ...(settlement === undefined && { payment: isReleased ? "released" : "authorized" }),
      receipt,
      service_id: serviceId,
      job_index: jobIndex,
      call_id: callId,
      access_token: accessToken,
      links: { self: path, result: `${path}/result`, events: `${path}/events` },
    },
    { location: path, ...bought.headers, ...preferenceApplied(preferredSecs) },
  );
}

/**
 * Returns the answer of a payment whose job was answered while its request waited: the result itself. Headers hold what the
 * 202 has in its body, except the links. The body is empty if the runner gave no result.
 */
export function resultAnswer(
  request: Pick<HttpRequest, "headers">,
  bought: BoughtCall,
  preferredSecs: number | undefined,
  answered: Pick<Parameters<typeof resultResponse>[1], "calls" | "call" | "result" | "live" | "onSent">,
): HttpResponse | StreamingResponse {
  const { callId, receipt, accessToken } = bought;
  const headers = {
    ...bought.headers,
    ...preferenceApplied(preferredSecs),
    "x-call-id": String(callId),
    "x-receipt": receipt,
    "x-access-token": accessToken,
  };
  return resultResponse(request, { ...answered, headers });
}

function preferenceApplied(secs: number | undefined): Record<string, string> {
  return secs === undefined ? {} : { "preference-applied": `wait=${secs}` };
}

/** Answers a refusal that is no 402. */
export function refusalResponse(refusal: GatewayError, { serviceId, jobIndex }: JobKey): HttpResponse {
  const { code, status, details } = refusal;
  return errorResponse(refusal, {
    ...chargedNothing(code),
    ...(status === 403 || status === 404 ? { service_id: serviceId, job_index: jobIndex } : {}),
    ...details,
  });
}

/** Returns the refusal that answers an error of a purchase. Before an error that is none itself, money may have moved. */
export function purchaseRefusalOf(error: unknown): GatewayError {
  const refusal = refusalOf(error);
  if (refusal === error) return refusal;
  const { code, message, headers } = refusal;
  return new GatewayError(code, message, { cause: error, details: { charged: "unknown" }, headers });
}

/** Fields that every refusal of a paid request has besides its code, unless money may have moved. */
export function chargedNothing(code: ErrorCode): { charged: false; retryable: boolean } {
  return { charged: false, retryable: ERROR_KINDS[code].retryable };
}
