import { GatewayError } from "../../core/errors.ts";
import type { PaymentKey } from "../../core/payment.ts";
import { bearerToken, type HttpRequest } from "../../http/request.ts";
import { type HttpResponse, jsonResponse, type StreamingResponse } from "../../http/response.ts";
import { type CallLookup, type CallState, NOT_KEPT } from "../../store/contract/call-lookup.ts";
import type { ClientLimits } from "../purchase/client-limits.ts";
import type { AnswerExtensions } from "../wire/extensions.ts";
import type { CallPath } from "../wire/paths.ts";
import type { AccessTokens, PayerProof } from "./access-tokens.ts";
import { describeCall, hasResult, lateSettlement, settlementHeaders } from "./call-answer.ts";
import type { CallEvents } from "./events.ts";
import { resultResponse } from "./result-response.ts";
import type { SentResults } from "./sent-results.ts";
import { callFailed, resultNotKept, withheldBecause } from "./withheld.ts";

interface Parts {
  readonly calls: CallLookup;
  readonly events: CallEvents;
  readonly sent: SentResults;
  readonly tokens: AccessTokens;
  readonly limits: Pick<ClientLimits, "countWrongToken">;
  readonly extensions: AnswerExtensions;
  readonly payerProof: PayerProof | undefined;
}

/**
 * `GET /x402/calls/{call_id}`, `…/result` and `…/events`: shows a paid call to the holder of its access token, and to its
 * authenticated payer.
 */
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
        return this.#showResult(request, call);
      case "/events":
        return this.#parts.events.stream(request, call, this.#parts.extensions);
    }
  }

  /**
   * @throws GatewayError `unauthorized` without a token; `call_not_found` or `rate_limited` with the token of another
   * call; the refusals of {@link PayerProof.payerOf}; `call_expired`
   */
  async #findCall(request: HttpRequest, callId: number): Promise<CallState> {
    const isBuyer = await this.#proof(request);
    const call = await this.#parts.calls.findCall(callId);
    // A held call is not paid for yet, so no token opens it.
    if (call === undefined || call.state === "held" || !isBuyer(call.payment)) {
      this.#parts.limits.countWrongToken(request);
      throw new GatewayError("call_not_found", "No call with this id has this access token or payer.");
    }
    if (call.state === "expired") {
      throw new GatewayError("call_expired", "This call ended long ago, and its result is no longer kept.", {
        details: { retryable: false },
      });
    }
    return call;
  }

  /** Returns a check that the client who sent the request made a payment. */
  async #proof(request: HttpRequest): Promise<(payment: PaymentKey) => boolean> {
    const { tokens, payerProof } = this.#parts;
    const token = bearerToken(request);
    if (token !== undefined) return (payment) => tokens.isTokenOf(token, payment);
    if (payerProof?.isIn(request) !== true) {
      const advice = payerProof === undefined ? "" : `; ${payerProof.advice}`;
      throw new GatewayError(
        "unauthorized",
        `Send the access_token of the 202 answer as Authorization: Bearer <access_token>${advice}.`,
        { headers: { "www-authenticate": "Bearer" } },
      );
    }
    const { payer, network } = await payerProof.payerOf(request);
    return (payment) => payment.payer === payer && payment.network === network;
  }

  async #showResult(request: HttpRequest, call: CallState): Promise<HttpResponse | StreamingResponse> {
    const { callId, state } = call;
    const { calls, extensions, sent } = this.#parts;
    const withheld = withheldBecause(call);
    if (withheld !== undefined) throw withheld;
    if (hasResult(call)) {
      const result = await calls.findResult(callId);
      if (result === NOT_KEPT) throw resultNotKept(call);
      return resultResponse(request, {
        calls,
        call,
        result,
        onSent: sent.forgetting(call),
        headers: {
          "x-call-id": String(callId),
          ...settlementHeaders(lateSettlement(call)),
          ...(await extensions.headersOf(call)),
        },
      });
    }
    if (state === "failed") throw callFailed(call);
    throw new GatewayError("result_not_ready", `There is no result yet: the call is ${state}.`, {
      details: { retryable: true, state },
    });
  }
}
