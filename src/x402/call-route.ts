import { equalInConstantTime } from "../constant-time.ts";
import { GatewayError } from "../errors.ts";
import { bearerToken } from "../http/bearer-token.ts";
import type { HttpRequest } from "../http/http-request.ts";
import { type HttpResponse, jsonResponse } from "../http/http-response.ts";
import type { CallLookup, CallState } from "../store/store.ts";
import { resultResponse } from "./call-result.ts";

/** `GET /x402/calls/{call_id}` and `…/result`: how a paid call is doing, for whoever holds its receipt. */
export function createCallRoute(calls: CallLookup) {
  return async (request: HttpRequest, callId: number, wantsResult: boolean): Promise<HttpResponse> => {
    const call = await findPaidCall(request, calls, callId);
    return wantsResult ? showResult(calls, call) : jsonResponse(200, describe(call));
  };
}

async function findPaidCall(request: HttpRequest, calls: CallLookup, callId: number): Promise<CallState> {
  const receipt = bearerToken(request);
  if (receipt === undefined) {
    throw new GatewayError(
      "unauthorized",
      "Send the receipt of the 202 answer as Authorization: Bearer <receipt>.",
      {
        headers: { "www-authenticate": "Bearer" },
      },
    );
  }
  const call = await calls.findCall(callId);
  // A held call is not paid for yet, and so is nobody's.
  if (call === undefined || call.state === "held" || !equalInConstantTime(receipt, call.receipt)) {
    throw new GatewayError("call_not_found", "No call with this id was paid for with this receipt.");
  }
  return call;
}

function describe({ callId, state, attempt, enqueuedAt, finishedAt }: CallState) {
  return {
    call_id: callId,
    state,
    attempt,
    enqueued_at: new Date(enqueuedAt).toISOString(),
    ...(finishedAt === undefined ? {} : { finished_at: new Date(finishedAt).toISOString() }),
  };
}

async function showResult(calls: CallLookup, { callId, state }: CallState): Promise<HttpResponse> {
  const result = state === "succeeded" ? await calls.findResult(callId) : undefined;
  if (result === undefined) {
    throw new GatewayError("result_not_ready", `There is no result: the call is ${state}.`, {
      details: { state },
    });
  }
  return resultResponse(result);
}
