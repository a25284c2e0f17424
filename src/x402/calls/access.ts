import { equalInConstantTime } from "../../core/constant-time.ts";
import { GatewayError } from "../../core/errors.ts";
import { bearerToken, type HttpRequest } from "../../http/request.ts";
import type { CallLookup, CallState } from "../../store/contract/call-lookup.ts";

/**
 * The paid call that the request asks for, if it carries the call's receipt.
 * @throws GatewayError `unauthorized` without a receipt; `call_not_found` for another's, or no call at all
 */
export async function findPaidCall(
  request: HttpRequest,
  calls: Pick<CallLookup, "findCall">,
  callId: number,
): Promise<CallState> {
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
