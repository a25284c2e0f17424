import { equalInConstantTime } from "../../core/constant-time.ts";
import { GatewayError } from "../../core/errors.ts";
import { bearerToken, type HttpRequest } from "../../http/request.ts";
import { type HttpResponse, jsonResponse, type StreamingResponse } from "../../http/response.ts";
import type { CallLookup, CallState } from "../../store/contract/call-lookup.ts";
import type { CallPath } from "../wire/paths.ts";
import { describeCall, resultResponse } from "./call-answer.ts";
import type { CallEvents } from "./events.ts";

/** `GET /x402/calls/{call_id}`, `…/result` and `…/events`: shows a paid call to the holder of its receipt. */
export class CallRoute {
  readonly #calls: CallLookup;
  readonly #events: CallEvents;

  constructor(parts: { readonly calls: CallLookup; readonly events: CallEvents }) {
    this.#calls = parts.calls;
    this.#events = parts.events;
  }

  async answer(request: HttpRequest, { callId, tail }: CallPath): Promise<HttpResponse | StreamingResponse> {
    const call = await this.#findCall(request, callId);
    switch (tail) {
      case "":
        return jsonResponse(200, describeCall(call));
      case "/result":
        return this.#showResult(call);
      case "/events":
        return this.#events.stream(request, call);
    }
  }

  /** @throws GatewayError `unauthorized` without a receipt; `call_not_found` unless the receipt is the call's own */
  async #findCall(request: HttpRequest, callId: number): Promise<CallState> {
    const receipt = bearerToken(request);
    if (receipt === undefined) {
      throw new GatewayError(
        "unauthorized",
        "Send the receipt of the 202 answer as Authorization: Bearer <receipt>.",
        { headers: { "www-authenticate": "Bearer" } },
      );
    }
    const call = await this.#calls.findCall(callId);
    // A held call is not paid for yet, so its receipt opens nothing.
    if (call === undefined || call.state === "held" || !equalInConstantTime(receipt, call.receipt)) {
      throw new GatewayError("call_not_found", "No call with this id was paid for with this receipt.");
    }
    return call;
  }

  async #showResult({ callId, state }: CallState): Promise<HttpResponse> {
    const result = state === "succeeded" ? await this.#calls.findResult(callId) : undefined;
    if (result === undefined) {
      throw new GatewayError("result_not_ready", `There is no result: the call is ${state}.`, {
        details: { state },
      });
    }
    return resultResponse(result);
  }
}
