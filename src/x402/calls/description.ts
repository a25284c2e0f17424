import type { CallState } from "../../store/contract/call-lookup.ts";

/** A paid call's state as its client is told, in JSON. */
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
