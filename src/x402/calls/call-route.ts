import { GatewayError } from "../../core/errors.ts";
import { bearerToken, type HttpRequest } from "../../http/request.ts";
import { type HttpResponse, jsonResponse, type StreamingResponse } from "../../http/response.ts";
import type { CallLookup, CallState } from "../../store/contract/call-lookup.ts";
import type { ClientLimits } from "../purchase/client-limits.ts";
import type { ReceiptSigner } from "../receipts/receipt-signer.ts";
import type { CallPath } from "../wire/paths.ts";
import type { AccessTokens } from "./access-tokens.ts";
import { describeCall, resultResponse } from "./call-answer.ts";
import type { CallEvents } from "./events.ts";

interface Parts {
  readonly calls: CallLookup;
  readonly events: CallEvents;
  readonly tokens: AccessTokens;
  readonly limits: Pick<ClientLimits, "countWrongToken">;
  readonly receipts: ReceiptSigner | undefined;
}

/** `GET /x402/calls/{call_id}`, `…/result` and `…/events`: shows a paid call to the holder of its access token. */
export class CallRoute {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async answer(request: HttpRequest, { callId, tail }: CallPath): Promise<HttpResponse | StreamingResponse> {
    const call = await this.#findCall(request, callId);
    switch (tail) {
      case "":
        return jsonResponse(200, describeCall(call));
      case "/result":
        return this.#showResult(call);
      case "/events":
        return this.#parts.events.stream(request, call, this.#parts.receipts);
    }
  }

  /**
   * @throws GatewayError `unauthorized` without a token; `call_not_found` or `rate_limited` with another call's;
   * `call_expired`
   */
  async #findCall(request: HttpRequest, callId: number): Promise<CallState> {
    const token = bearerToken(request);
    if (token === undefined) {
      throw new GatewayError(
        "unauthorized",
        "Send the access_token of the 202 answer as Authorization: Bearer <access_token>.",
        { headers: { "www-authenticate": "Bearer" } },
      );
    }
    const call = await this.#parts.calls.findCall(callId);
    // A held call is not paid for yet, so no token opens it.
    if (call === undefined || call.state === "held" || !this.#parts.tokens.isTokenOf(token, call.payment)) {
      this.#parts.limits.countWrongToken(request);
      throw new GatewayError("call_not_found", "No call with this id has this access token.");
    }
    if (call.state === "expired") {
      throw new GatewayError("call_expired", "This call ended long ago, and its result is no longer kept.", {
        details: { retryable: false },
      });
    }
    return call;
  }

  async #showResult(call: CallState): Promise<HttpResponse> {
    const { callId, state, reason, charge } = call;
    const { calls, receipts } = this.#parts;
    if (charge?.state === "failed") {
      throw new GatewayError(
        "settlement_failed",
        "The job was done, but the payment could not be charged, so there is no result. Nothing was charged.",
        { details: { retryable: false, state } },
      );
    }
    if (state === "succeeded")
      return resultResponse(await calls.findResult(callId), await receipts?.headersOf(call));
    if (state === "failed") {
      throw new GatewayError("call_failed", "The job failed, and has no result.", {
        details: { retryable: false, state, ...(reason !== undefined && { reason }) },
      });
    }
    throw new GatewayError("result_not_ready", `There is no result yet: the call is ${state}.`, {
      details: { retryable: true, state },
    });
  }
}
