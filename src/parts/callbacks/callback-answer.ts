import { type HttpOutcome, isSuccess, retryAfterMs } from "../outbound/http-answer.ts";
import { retryDelayMs } from "./host-pauses.ts";
import type { CallbackOutcome } from "./store/ledger.ts";

/** Longest delay that a host can ask for. */
const MAX_RETRY_AFTER_MS = 24 * 60 * 60_000;

/** Conclusions from the end of a request, about its callback and its host. */
interface Reading {
  /** Reason why the callback has not arrived; undefined if it has arrived. */
  readonly reason: string | undefined;
  /** True if no later request can succeed. */
  readonly isFinal: boolean;
  /** True if the host answered, so that a failure concerns only this callback. */
  readonly isHostUp: boolean;
  /** Delay that the host requests. */
  readonly delayMs: number | undefined;
}

/** @param now Unix milliseconds */
export function readOutcome(outcome: HttpOutcome, now: number): Reading {
  const delayMs = undefined;
  if (outcome.kind === "invalid") return { reason: outcome.reason, isFinal: true, isHostUp: true, delayMs };
  if (outcome.kind !== "answered")
    return { reason: outcome.reason, isFinal: false, isHostUp: false, delayMs };
  const { status, retryAfter } = outcome.answer;
  if (isSuccess(status)) return { reason: undefined, isFinal: true, isHostUp: true, delayMs };
  return {
    reason: `HTTP ${status}`,
    isFinal: status === 410,
    isHostUp: status < 500 && status !== 429 && status !== 408,
    delayMs: retryAfterMs(retryAfter, now, MAX_RETRY_AFTER_MS),
  };
}

export function toCallbackOutcome({ reason, isFinal, delayMs }: Reading, attempts: number): CallbackOutcome {
  if (reason === undefined) return { kind: "sent" };
  if (isFinal) return { kind: "dead", reason };
  return { kind: "later", delayMs: Math.max(delayMs ?? 0, retryDelayMs(attempts, Math.random())), reason };
}
