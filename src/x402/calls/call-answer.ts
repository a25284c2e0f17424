import { encodePaymentResponseHeader } from "@x402/core/http";
import type { SettleResponse } from "@x402/core/types";
import { hasFailed } from "../../core/result-answer.ts";
import type { CallState } from "../../store/contract/call-lookup.ts";

/** Returns a paid call's state as JSON for its client. */
export function describeCall(call: CallState) {
  const {
    callId,
    state,
    attempt,
    progress,
    reason,
    status,
    charge,
    additions = [],
    enqueuedAt,
    finishedAt,
  } = call;
  return {
    call_id: callId,
    state,
    attempt,
    ...(progress === undefined ? {} : { progress }),
    ...(reason === undefined ? {} : { reason }),
    ...(status === undefined ? {} : { status }),
    ...(charge === undefined ? {} : { charge: describeCharge(charge, call.payment) }),
    ...fieldsOf(additions),
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

/** Fields that parts add to the state of a call. */
function fieldsOf(additions: NonNullable<CallState["additions"]>): Readonly<Record<string, unknown>> {
  return Object.assign({}, ...additions.map(({ fields }) => fields));
}

/**
 * Returns the settlement of a call that was charged after it ran. The 202 of the call had no settlement, or an earlier
 * settlement.
 */
export function lateSettlement({ charge, settlement }: CallState): SettleResponse | undefined {
  const isCharged = charge?.state === "settled" || charge?.state === "released";
  return isCharged && settlement !== undefined ? JSON.parse(settlement) : undefined;
}

/** Headers with the settlement of a call that was charged after it ran. */
export function settlementHeaders(settlement: SettleResponse | undefined): Record<string, string> {
  return settlement === undefined ? {} : { "payment-response": encodePaymentResponseHeader(settlement) };
}

/** Returns true once a call has a result, which may be empty. */
export function hasResult({ state, status }: CallState): boolean {
  return state === "succeeded" || (state === "failed" && hasFailed(status));
}
