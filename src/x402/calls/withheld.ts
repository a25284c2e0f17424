import { GatewayError } from "../../core/errors.ts";
import type { CallState } from "../../store/contract/call-lookup.ts";
import { settlementHeaders } from "./call-answer.ts";

/**
 * Returns the reason why the client of a finished job does not get its result, because a result is withheld until its charge
 * is certain. Returns undefined for any other call.
 */
export function withheldBecause({
  state,
  charge,
  settlement,
}: Pick<CallState, "state" | "charge" | "settlement">): GatewayError | undefined {
  if (charge?.state === "failed") {
    const { moved } = charge;
    return new GatewayError(
      "settlement_failed",
      moved === undefined
        ? "The job was done, but it could not be charged, so there is no result. This job was not charged."
        : `The job was done, but it could not be charged, so there is no result: ${moved.reason}.`,
      {
        details: { retryable: false, state, ...(moved && { charged: "unknown", moved }) },
        // It is certain that no money moved.
        headers: moved || settlement === undefined ? {} : settlementHeaders(JSON.parse(settlement)),
      },
    );
  }
  if (!charge?.isAwaited) return undefined;
  return new GatewayError(
    "settlement_unknown",
    "The job was done, and its result waits until the charge is certain. Send the same request again.",
    { details: { charged: "unknown", retryable: true, state }, headers: { "retry-after": "2" } },
  );
}

/** Returns the error for a client whose result was already sent and then deleted. */
export function resultNotKept(
  { state, charge }: Pick<CallState, "state" | "charge">,
  headers: Readonly<Record<string, string>> = {},
): GatewayError {
  return new GatewayError(
    "result_not_kept",
    "The result of this call was sent before, and results of this job are not kept once they were sent.",
    { details: { charged: charge?.state !== "released", retryable: false, state }, headers },
  );
}

/** Returns the error for the client of a job that failed without a result. */
export function callFailed({ state, reason }: Pick<CallState, "state" | "reason">): GatewayError {
  return new GatewayError("call_failed", "The job failed, and has no result.", {
    details: { retryable: false, state, ...(reason !== undefined && { reason }) },
  });
}
