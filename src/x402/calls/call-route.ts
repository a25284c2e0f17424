import { GatewayError } from "../../core/errors.ts";
import type { HttpRequest } from "../../http/request.ts";
import { type HttpResponse, jsonResponse, type StreamingResponse } from "../../http/response.ts";
import type { CallLookup, CallState } from "../../store/contract/call-lookup.ts";
import type { CallPath } from "../wire/paths.ts";
import { findPaidCall } from "./access.ts";
import { describeCall } from "./description.ts";
import type { StreamCallEvents } from "./events.ts";
import { resultResponse } from "./result.ts";

export interface CallRouteOptions {
  readonly calls: CallLookup;
  readonly streamEvents: StreamCallEvents;
}

/** `GET /x402/calls/{call_id}`, `…/result` and `…/events`: how a paid call is doing, for whoever holds its receipt. */
export function createCallRoute({ calls, streamEvents }: CallRouteOptions) {
  return async (
    request: HttpRequest,
    { callId, tail }: CallPath,
  ): Promise<HttpResponse | StreamingResponse> => {
    const call = await findPaidCall(request, calls, callId);
    switch (tail) {
      case "":
        return jsonResponse(200, describeCall(call));
      case "/result":
        return showResult(calls, call);
      case "/events":
        return streamEvents(request, call);
    }
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
