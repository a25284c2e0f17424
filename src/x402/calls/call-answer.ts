import type { HttpResponse } from "../../http/response.ts";
import type { CallState } from "../../store/contract/call-lookup.ts";
import type { JobResult } from "../../store/contract/work-queue.ts";

/** Returns a paid call's state as JSON for its client. */
export function describeCall(call: CallState) {
  const { callId, state, attempt, progress, reason, charge, refund, enqueuedAt, finishedAt } = call;
  return {
    call_id: callId,
    state,
    attempt,
    ...(progress === undefined ? {} : { progress }),
    ...(reason === undefined ? {} : { reason }),
    ...(charge === undefined ? {} : { charge: describeCharge(charge, call.payment) }),
    ...(refund === undefined ? {} : { refund: describeRefund(refund, call.payment) }),
    enqueued_at: new Date(enqueuedAt).toISOString(),
    ...(finishedAt === undefined ? {} : { finished_at: new Date(finishedAt).toISOString() }),
  };
}

function describeCharge(
  { state, ceiling, amount, symbol, transaction, moved }: NonNullable<CallState["charge"]>,
  { network, asset }: CallState["payment"],
) {
  return {
    state,
    ...{ network, asset, symbol, ceiling },
    ...(amount === undefined ? {} : { amount }),
    ...(transaction === undefined ? {} : { transaction }),
    ...(moved === undefined ? {} : { moved }),
  };
}

/** Why a refund waits is the seller's business; why it failed may be the payer's. */
function describeRefund(
  { state, amount, symbol, transaction, reason }: NonNullable<CallState["refund"]>,
  { network, asset }: CallState["payment"],
) {
  return {
    state,
    ...{ network, asset, symbol, amount },
    ...(transaction === undefined ? {} : { transaction }),
    ...(state === "refund_failed" && reason !== undefined ? { reason } : {}),
  };
}

/** Result of a job whose runner returned none. */
const EMPTY: JobResult = { body: new Uint8Array(), contentType: "application/octet-stream" };

/** Returns 200 with the runner's result, byte for byte; its body is empty if there is none. */
export function resultResponse(
  { body, contentType }: JobResult = EMPTY,
  headers: HttpResponse["headers"] = {},
): HttpResponse {
  return {
    status: 200,
    headers: {
      "content-type": contentType,
      "cache-control": "no-store",
      // The runner's output is untrusted on the operator's origin, so a browser must not run it.
      "content-security-policy": "sandbox",
      ...headers,
    },
    body,
  };
}
