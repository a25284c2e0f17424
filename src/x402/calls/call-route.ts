import { GatewayError } from "../../core/errors.ts";
import { bearerToken, type HttpRequest } from "../../http/request.ts";
import { type HttpResponse, jsonResponse, type StreamingResponse } from "../../http/response.ts";
import type { CallLookup, CallState } from "../../store/contract/call-lookup.ts";
import type { ClientLimits } from "../purchase/client-limits.ts";
import type { CallPath } from "../wire/paths.ts";
import type { AccessTokens } from "./access-tokens.ts";
import { describeCall, resultResponse } from "./call-answer.ts";
import type { CallEvents } from "./events.ts";

/** `GET /x402/calls/{call_id}`, `…/result` and `…/events`: shows a paid call to the holder of its access token. */
export class CallRoute {
  readonly #calls: CallLookup;
  readonly #events: CallEvents;
  readonly #tokens: AccessTokens;
  readonly #limits: Pick<ClientLimits, "countWrongToken">;

  constructor(parts: {
    readonly calls: CallLookup;
    readonly events: CallEvents;
    readonly tokens: AccessTokens;
    readonly limits: Pick<ClientLimits, "countWrongToken">;
  }) {
    this.#calls = parts.calls;
    this.#events = parts.events;
    this.#tokens = parts.tokens;
    this.#limits = parts.limits;
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

  /** @throws GatewayError `unauthorized` without a token; `call_not_found` or `rate_limited` unless it is the call's own */
  async #findCall(request: HttpRequest, callId: number): Promise<CallState> {
    const token = bearerToken(request);
    if (token === undefined) {
      throw new GatewayError(
        "unauthorized",
        "Send the access_token of the 202 answer as Authorization: Bearer <access_token>.",
        { headers: { "www-authenticate": "Bearer" } },
      );
    }
    const call = await this.#calls.findCall(callId);
    // A held call is not paid for yet, so no token opens it.
    if (call === undefined || call.state === "held" || !this.#tokens.isTokenOf(token, call.payment)) {
      await this.#limits.countWrongToken(request);
      throw new GatewayError("call_not_found", "No call with this id has this access token.");
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
