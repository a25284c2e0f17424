import type { CallLookup } from "../../store/contract/call-lookup.ts";
import type { JobResult } from "../../store/contract/work-queue.ts";
import type { CallWatch } from "./watch.ts";

export interface WaitOptions {
  readonly calls: Pick<CallLookup, "findResult">;
  readonly watch: CallWatch;
}

export type WaitOutcome =
  /** `result` is undefined when the runner gave none. */
  | { readonly kind: "succeeded"; readonly result: JobResult | undefined }
  /** Not in time, or the job failed, or nobody waits any more. */
  | { readonly kind: "not_in_time" }
  /** Too many wait already: nothing was waited for. */
  | { readonly kind: "not_waited" };

/**
 * Waits for a paid call to succeed, for `waitSecs` at most, until `closed` aborts or the watch stops. Never rejects:
 * the call is paid for, and no trouble in waiting may make that look like a refusal.
 */
export type WaitForResult = (callId: number, waitSecs: number, closed: AbortSignal) => Promise<WaitOutcome>;

/** Requests held at once. Each is a connection, a timer and a look at the store every second. */
const MAX_WAITING = 10_000;

export function createWaitForResult({ calls, watch }: WaitOptions): WaitForResult {
  let waiting = 0;

  async function hasSucceeded(callId: number, signal: AbortSignal): Promise<boolean> {
    for await (const { state } of watch.states(callId, signal)) if (state === "succeeded") return true;
    return false;
  }

  return async (callId, waitSecs, closed) => {
    if (waiting >= MAX_WAITING) return { kind: "not_waited" };
    waiting++;
    const over = new AbortController();
    const end = () => over.abort();
    const timer = setTimeout(end, waitSecs * 1_000);
    if (closed.aborted) end();
    closed.addEventListener("abort", end);
    try {
      if (!(await hasSucceeded(callId, over.signal))) return { kind: "not_in_time" };
      return { kind: "succeeded", result: await calls.findResult(callId) };
    } catch {
      return { kind: "not_in_time" };
    } finally {
      clearTimeout(timer);
      closed.removeEventListener("abort", end);
      waiting--;
    }
  };
}
