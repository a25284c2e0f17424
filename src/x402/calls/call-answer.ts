import type { HttpResponse } from "../../http/response.ts";
import type { CallState } from "../../store/contract/call-lookup.ts";
import type { JobResult } from "../../store/contract/work-queue.ts";

/** Returns a paid call's state as JSON for its client. */
export function describeCall({ callId, state, attempt, progress, enqueuedAt, finishedAt }: CallState) {
  return {
    call_id: callId,
    state,
    attempt,
    ...(progress === undefined ? {} : { progress }),
    enqueued_at: new Date(enqueuedAt).toISOString(),
    ...(finishedAt === undefined ? {} : { finished_at: new Date(finishedAt).toISOString() }),
  };
}

/** Returns 200 with the runner's result, byte for byte. */
export function resultResponse(
  { body, contentType }: JobResult,
  headers: HttpResponse["headers"] = {},
): HttpResponse {
  return {
    status: 200,
    headers: {
      "content-type": contentType,
      "cache-control": "no-store",
      // The runner's output is untrusted on the operator's origin: a browser must not guess its type or run it.
      "x-content-type-options": "nosniff",
      "content-security-policy": "sandbox",
      ...headers,
    },
    body,
  };
}
